// Texts for the person, in their language; the page contains them.
const words = document.getElementById("words")?.dataset ?? {};

export const word = (name, put = "") => (words[`say${name[0].toUpperCase()}${name.slice(1)}`] ?? "").replace("#", put);

export function say(text) {
  const place = document.getElementById("said");
  if (!place) return;
  place.classList.remove("sr");
  place.className = "said-now";
  place.textContent = text;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => { place.className = "sr"; }, 4000);
}
