// Single keys work outside of fields and dialogs unless switched off; Ctrl K and Ctrl Enter always work.
import { say, word } from "./words.js";

const WRITING = "input:not([type=checkbox]), textarea, select, [contenteditable]";

export function listen(actions, openPalette) {
  const help = document.getElementById("help");
  const all = {
    "?": () => help?.showModal(),
    "/": () => document.getElementById("q")?.focus(),
    z: undo,
    ...actions,
  };
  document.querySelector("[data-help]")?.addEventListener("click", (event) => {
    if (!help || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    help.showModal();
  });
  document.addEventListener("keydown", (event) => {
    if (event.isComposing || event.defaultPrevented) return;
    if ((event.ctrlKey || event.metaKey) && !event.altKey) {
      if (event.key.toLowerCase() === "k") { event.preventDefault(); openPalette(); }
      if (event.key === "Enter") {
        const form = event.target.closest?.("form");
        if (form) { event.preventDefault(); form.requestSubmit(form.querySelector("button:not([type=button])")); }
      }
      return;
    }
    if (event.altKey || event.metaKey || document.querySelector("dialog[open]")) return;
    if (event.key === "Escape") { leave(event.target); return; }
    if (event.target.closest?.(WRITING)) return;
    const act = all[event.key];
    if (!act || document.body.dataset.keys === "off" || event.repeat && !"jk".includes(event.key)) return;
    if (event.key === "Enter" && event.target.closest?.("a, button, summary, label")) return;
    event.preventDefault();
    act();
  });
}

// Undoes the selected row, else the mail of this page, else the newest mail that is being sent.
function undo() {
  const places = ["#rows > li.at", ".state", ".toast"].map((place) => `${place} form[data-action=undo]`);
  const form = places.map((place) => document.querySelector(place)).find(Boolean);
  if (form) form.requestSubmit();
  else say(word("undoOver"));
}

function leave(target) {
  const open = target.closest?.("details[open]");
  if (open) { open.open = false; open.querySelector("summary")?.focus(); } else target.blur?.();
}

// A key approves a mail only after it was in view for a second, so that a quick key press decides nothing.
export class InView {
  constructor() { this.since = null; }
  begin() { this.since = document.visibilityState === "visible" ? performance.now() : null; }
  end() { this.since = null; }
  long() {
    if (document.visibilityState !== "visible") return false;
    if (this.since === null) { this.begin(); return false; }
    return performance.now() - this.since >= 1000;
  }
}

export function reveal(root, key) {
  const place = root?.querySelector(`details[data-key="${key}"]`);
  if (!place) return false;
  place.open = true;
  place.scrollIntoView({ block: "nearest" });
  place.querySelector("textarea")?.focus();
  return true;
}
