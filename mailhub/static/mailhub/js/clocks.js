// Seconds count down from the server's number; only the server decides when the time is over.
const ends = new WeakMap();

function tick() {
  for (const place of document.querySelectorAll("[data-seconds]")) {
    if (!ends.has(place)) ends.set(place, performance.now() + Number(place.dataset.seconds) * 1000);
    const left = Math.max(Math.ceil((ends.get(place) - performance.now()) / 1000), 0);
    if (place.textContent !== String(left)) place.textContent = left;
    if (left === 0) place.closest(".toast")?.remove();
  }
  for (const time of document.querySelectorAll("time[datetime]:not([data-local])")) {
    const at = new Date(time.dateTime);
    time.dataset.local = "";
    if (!Number.isNaN(at.valueOf())) time.title = at.toLocaleString();
  }
}

// The server shows times in this zone from the next page on.
function tellZone() {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (!zone || document.cookie.split("; ").includes(`zone=${zone}`)) return;
  document.cookie = `zone=${zone}; path=/; max-age=31536000; samesite=lax${location.protocol === "https:" ? "; secure" : ""}`;
}

export function followClocks() {
  tellZone();
  tick();
  setInterval(tick, 250);
}
