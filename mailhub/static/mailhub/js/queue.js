// The list: one row is selected, and on a wide screen its whole message is shown beside it.
import { InView, reveal } from "./keys.js";
import { say, word } from "./words.js";

const PLACE = "mailhub-place";
const view = new InView();
let asked = 0;

const rows = () => [...document.querySelectorAll("#rows > li:not(.left)")];
const at = () => document.querySelector("#rows > li.at");
const pane = () => document.getElementById("pane");
const beside = () => pane() && getComputedStyle(pane()).display !== "none";

export function startQueue() {
  const list = document.getElementById("rows");
  if (list) {
    list.addEventListener("focusin", (event) => select(event.target.closest("li"), { focus: false }));
    list.addEventListener("change", count);
    list.addEventListener("live", (event) => { if (event.target === at()) show(event.target, true); });
    const place = Number(sessionStorage.getItem(PLACE) ?? 0);
    sessionStorage.removeItem(PLACE);
    const all = rows();
    if (document.querySelector(".split")) select(all[Math.min(place, all.length - 1)], { focus: false });
    matchMedia("(min-width: 1120px)").addEventListener("change", () => show(at(), true));
    document.addEventListener("visibilitychange", () => view.begin());
    count();
  }
  return { j: () => move(1), k: () => move(-1), Enter: open, a: approve, e: edit, c: () => answer("c"), r: () => answer("r"), x: pick };
}

function select(row, { focus = true } = {}) {
  if (!row) return;
  if (focus) row.querySelector(".what a")?.focus({ preventScroll: true });
  if (row === at()) return;
  at()?.classList.remove("at");
  row.classList.add("at");
  if (focus) row.scrollIntoView({ block: "nearest" });
  show(row);
}

async function show(row, again = false) {
  if (!row || !beside() || (!again && pane().dataset.shown === row.dataset.id)) return;
  const mine = ++asked;
  view.end();
  pane().dataset.shown = row.dataset.id;
  pane().setAttribute("aria-busy", "true");
  let html = "";
  try {
    const answer = await fetch(row.dataset.peek, { headers: { "X-Requested-With": "fetch" } });
    if (answer.redirected) { location.reload(); return; }  // the session has ended
    if (answer.ok) html = await answer.text();
  } catch { /* live.js shows that the connection is lost */ }
  if (mine !== asked) return;
  pane().innerHTML = html;
  pane().scrollTop = 0;
  pane().removeAttribute("aria-busy");
  for (const field of pane().querySelectorAll("[data-query]")) field.value = document.body.dataset.query;
  for (const form of pane().querySelectorAll("form")) form.addEventListener("submit", remember);
  const frame = pane().querySelector("iframe");
  const begin = () => { view.begin(); setTimeout(report, 1_100, mine); };
  if (frame) frame.addEventListener("load", begin, { once: true });
  else if (html) begin();
}

// Several mails are approved together only if each was in view, here or on its page.
function report(mine) {
  const shown = pane().firstElementChild?.dataset;
  if (mine !== asked || !view.long() || !shown) return;
  const token = document.querySelector("input[name=csrfmiddlewaretoken]")?.value ?? "";
  fetch(shown.presence, { method: "POST", body: new URLSearchParams({ csrfmiddlewaretoken: token, revision: shown.revision }) });
}

function remember() {
  sessionStorage.setItem(PLACE, String(Math.max(rows().indexOf(at()), 0)));
}

function move(step) {
  const all = rows();
  const next = at() ? all[all.indexOf(at()) + step] : all[0];
  select(next ?? at());
}

function open() {
  const link = (at() ?? rows()[0])?.querySelector(".what a");
  if (link) location.assign(link.href);
}

function approve() {
  const form = beside() && pane().dataset.shown === at()?.dataset.id && pane().querySelector("form[data-action=approve]");
  if (!form) { say(word("openFirst")); return; }
  if (!view.long()) { say(word("look")); return; }
  form.requestSubmit();
}

function edit() {
  const way = beside() && pane().querySelector("form[data-action=edit]");
  if (way) way.requestSubmit();
  else open();
}

function answer(key) {
  if (!beside() || !reveal(pane(), key)) open();
}

function pick() {
  const box = at()?.querySelector(".pick input");
  if (!box) return;
  box.checked = !box.checked;
  count();
}

function count() {
  const button = document.querySelector("[data-bulk]");
  if (!button) return;
  const chosen = document.querySelectorAll("#rows .pick input:checked").length;
  button.disabled = chosen === 0;
  button.dataset.label ??= button.textContent;
  button.textContent = chosen ? `${button.dataset.label.replace("…", "")} (${chosen})…` : button.dataset.label;
}
