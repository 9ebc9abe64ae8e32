// The server notifies the page of a change; the page then loads the changes. Without notifications it polls.
import { word } from "./words.js";

const POLL_EVERY = 10_000;
const body = document.body;
let since = [body.dataset.event ?? ""];  // marks that only the server can read; it takes the oldest
let polling = null;
let busy = false;
let again = false;
const waitingOutside = new Set();

export function follow() {
  if (!("EventSource" in window)) { poll(true); return; }
  let source;
  const connect = () => {
    // The server notifies at once of changes since the page was made.
    source = new EventSource(`${body.dataset.live}?since=${encodeURIComponent(since[0])}`);
    source.onopen = () => { lost(false); poll(false); };
    // An event may become visible after later ones, which the page has seen already.
    source.onmessage = (event) => { since.push(event.data); look(); };
    source.onerror = () => {
      // CLOSED means that this server sends no notifications (204), so the page polls and shows no error.
      poll(true);
      if (source.readyState !== EventSource.CLOSED) lost(true);
    };
  };
  connect();
  addEventListener("pagehide", () => source.close());
  addEventListener("pageshow", (event) => { if (event.persisted) { connect(); look(); } });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) look(); });
}

function poll(on) {
  if (on && !polling) polling = setInterval(look, POLL_EVERY);
  if (!on && polling) { clearInterval(polling); polling = null; }
}

function lost(is) {
  const place = document.querySelector("[data-lost]");
  if (!place) return;
  place.hidden = !is;
  place.textContent = is ? word("lost") : "";
}

async function look() {
  if (body.dataset.page === "review") { body.dispatchEvent(new Event("rung")); return; }
  if (busy) { again = true; return; }
  busy = true;
  try {
    const asked = new URLSearchParams(body.dataset.query);
    const used = since.length;
    for (const mark of since) asked.append("since", mark);
    for (const row of document.querySelectorAll("#rows > li")) asked.append("shown", row.dataset.id);
    const answer = await fetch(`${body.dataset.changes}?${asked}`);
    if (answer.redirected) { location.reload(); return; }  // signed out meanwhile: the reload shows the sign-in
    if (!answer.ok) throw new Error(answer.status);
    const found = await answer.json();
    since = [found.last, ...since.slice(used)];
    apply(found);
    if (polling) lost(false);
  } catch {
    lost(true);
    poll(true);
  } finally {
    busy = false;
    if (again) { again = false; look(); }
  }
}

function apply(found) {
  again ||= found.more;
  for (const row of found.rows) swap(row);
  for (const id of found.gone) leave(document.getElementById(`row-${id}`));
  for (const place of document.querySelectorAll("[data-count]")) {
    const n = found.counts[place.dataset.count];
    const text = n ? (n >= 100 ? "100+" : String(n)) : "";
    if (n !== undefined && place.textContent !== text) place.textContent = text;
  }
  title(found.counts.pending);
  looking(found.looking);
  toast(found.toast);
  news();
}

// A row changes in its place. A row that left the list stays, dimmed, until the list is loaded again, so nothing jumps.
function swap(row) {
  const old = document.getElementById(`row-${row.id}`);
  if (!old) {
    if (!row.here) waitingOutside.delete(row.id);
    else if (row.later && document.body.dataset.page === "queue") waitingOutside.add(row.id);
    return;
  }
  const holder = document.createElement("template");
  holder.innerHTML = row.html.trim();
  const fresh = holder.content.firstElementChild;
  if (bare(old) === bare(fresh)) return;
  const focused = old.contains(document.activeElement) && (document.activeElement.closest(".pick") ? ".pick input" : ".what a");
  const box = old.querySelector(".pick input");
  const fresher = fresh.querySelector(".pick input");
  if (box && fresher && box.value === fresher.value) fresher.checked = box.checked;
  if (old.classList.contains("at")) fresh.classList.add("at");
  fresh.style.minHeight = `${old.offsetHeight}px`;
  old.replaceWith(fresh);
  if (focused) (fresh.querySelector(focused) ?? fresh.querySelector(".what a"))?.focus({ preventScroll: true });
  fresh.dispatchEvent(new Event("live", { bubbles: true }));
}

const bare = (row) => {
  const copy = row.cloneNode(true);
  copy.classList.remove("at");
  copy.removeAttribute("style");
  for (const each of copy.querySelectorAll("time, [data-looking], [data-seconds], input[name=csrfmiddlewaretoken]")) each.remove();
  return copy.outerHTML.replace(/ class=""/, "").replace(/\s+/g, " ");
};

function leave(row) {
  row?.classList.add("left");
}

function news() {
  const link = document.querySelector("[data-new]");
  const n = waitingOutside.size;
  if (!link) return;
  link.hidden = n === 0;
  link.textContent = n === 1 ? word("newOne") : word("newMany", n);
}

function looking(by) {
  for (const row of document.querySelectorAll("#rows > li")) {
    const place = row.querySelector("[data-looking]");
    const names = by[row.dataset.id] ?? [];
    const text = names.length ? word(names.length > 1 ? "reviewingMany" : "reviewingOne", names.join(", ")) : "";
    if (place && place.textContent.trim() !== text) place.textContent = text;
  }
}

function title(n) {
  const bareTitle = document.title.replace(/^\(\d+\+?\) /, "");
  document.title = n ? `(${n >= 100 ? "100+" : n}) ${bareTitle}` : bareTitle;
  const icon = document.querySelector("link[rel=icon]");
  const wanted = n ? icon.dataset.waiting : icon.dataset.none;
  if (icon.getAttribute("href") !== wanted) icon.setAttribute("href", wanted);
}

function toast(html) {
  const place = document.getElementById("toast");
  const shown = place.querySelector("[data-toast]")?.dataset.toast ?? "";
  const holder = document.createElement("template");
  holder.innerHTML = html.trim();
  const fresh = holder.content.querySelector("[data-toast]");
  if ((fresh?.dataset.toast ?? "") === shown || place.contains(document.activeElement)) return;
  place.replaceChildren(...(fresh ? [fresh] : []));
}
