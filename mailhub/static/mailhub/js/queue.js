// The list: one row is selected, and on a wide screen its whole message is shown beside it.
import { Look, approveIn, reveal } from "./keys.js";
import { quoteAndReveal } from "./quote.js";
import { say, word } from "./words.js";

const PLACE = "mailhub-place";
const PICKED = "mailhub-picked";
let look = null;
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
    restorePicked();
    count();
    document.querySelector("[data-alike-all]")?.addEventListener("click", pickAlike);
  }
  for (const each of document.querySelectorAll(".find select, .find input[type=checkbox]")) {
    each.addEventListener("change", () => each.form.requestSubmit());
  }
  return { j: () => move(1), k: () => move(-1), Enter: open, a: approve, e: edit, c: () => answer(quoteAndReveal), r: () => answer((root) => reveal(root, "r")), x: pick };
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
  look?.end();
  look = null;
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
  window.htmx?.process(pane());
  pane().removeAttribute("aria-busy");
  for (const field of pane().querySelectorAll("[data-query]")) field.value = document.body.dataset.query;
  for (const form of pane().querySelectorAll("form")) form.addEventListener("submit", remember);
  const shown = pane().querySelector("[data-presence]");
  if (!shown) return;
  const current = new Look(shown, { known: shown.dataset.known !== undefined, post: () => report(shown.dataset) });
  look = current;
  for (const form of pane().querySelectorAll("form[data-action=approve]")) {
    form.addEventListener("submit", (event) => { if (!current.check()) event.preventDefault(); });
  }
}

async function report(shown) {
  const token = document.querySelector("input[name=csrfmiddlewaretoken]")?.value ?? "";
  const fields = new URLSearchParams({ csrfmiddlewaretoken: token, revision: shown.revision });
  try { return (await fetch(shown.presence, { method: "POST", body: fields })).ok; } catch { return false; }
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
  if (!look || !beside() || pane().dataset.shown !== at()?.dataset.id) { say(word("openFirst")); return; }
  if (!pane().querySelector("form[data-action=approve]")) { say(word("openFirst")); return; }
  approveIn(pane(), look);
}

function edit() {
  const way = beside() && pane().querySelector("form[data-action=edit]");
  if (way) way.requestSubmit();
  else open();
}

function answer(begin) {
  if (!beside() || !begin(pane())) open();
}

function pick() {
  const box = at()?.querySelector(".pick input");
  if (!box) return;
  box.checked = !box.checked;
  count();
}

// Selects every row with the mailbox, proposer and warnings of a selected one, as the bulk page groups them.
function pickAlike() {
  const picked = [...document.querySelectorAll("#rows .pick input:checked")];
  const wanted = new Set(picked.map((box) => box.closest("li").dataset.alike));
  for (const row of rows()) {
    const box = row.querySelector(".pick input");
    if (box && wanted.has(row.dataset.alike)) box.checked = true;
  }
  count();
}

// A selection outlives a look at one mail. The value names the content, so a changed mail is not selected again.
function restorePicked() {
  const picked = new Set(JSON.parse(sessionStorage.getItem(PICKED) ?? "[]"));
  for (const box of document.querySelectorAll("#rows .pick input")) box.checked ||= picked.has(box.value);
}

function count() {
  const button = document.querySelector("[data-bulk]");
  if (!button) return;
  const picked = [...document.querySelectorAll("#rows .pick input:checked")].map((box) => box.value);
  sessionStorage.setItem(PICKED, JSON.stringify(picked));
  document.querySelector("[data-alike-all]").hidden = picked.length === 0;
  const chosen = document.querySelectorAll("#rows .pick input:checked").length;
  button.disabled = chosen === 0;
  button.dataset.label ??= button.textContent;
  button.textContent = chosen ? `${button.dataset.label.replace("…", "")} (${chosen})…` : button.dataset.label;
}
