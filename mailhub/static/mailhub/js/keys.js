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

const LOOK_MS = 1000;

// A mail is approved only after the beginning of its text was in view for a second, in this revision. The server
// keeps that it was. A root without a text, such as a page that shows its history, was not looked at.
export class Look {
  // `post` tells the server; it returns a promise of true. A mail that was `known` before is not approved within a
  // second either: a second touch may be meant for the mail before.
  constructor(root, { known = false, post }) {
    this.seen = false;
    this.root = root;
    this.begin = root.querySelector("[data-begin]");
    this.timer = null;
    this.inView = false;
    if (known) { this.timer = setTimeout(() => this.finish(), LOOK_MS); return; }
    if (!this.begin) return;
    this.observer = new IntersectionObserver(([entry]) => { this.inView = entry.isIntersecting; this.count(post); });
    const frame = root.querySelector("iframe.frame");
    const watch = () => this.observer.observe(this.begin);
    // The frame of a page may be loaded before this runs, but never before the window is.
    if (frame) (document.readyState === "complete" ? frame : window).addEventListener("load", watch, { once: true });
    else watch();
    this.changed = () => this.count(post);
    document.addEventListener("visibilitychange", this.changed);
  }

  count(post) {
    clearTimeout(this.timer);
    if (this.seen || !this.inView || document.visibilityState !== "visible") return;
    this.timer = setTimeout(async () => {
      if (await post()) this.finish();
    }, LOOK_MS);
  }

  finish() {
    this.seen = true;
    this.root.dataset.seen = "";
  }

  end() {
    clearTimeout(this.timer);
    this.observer?.disconnect();
    document.removeEventListener("visibilitychange", this.changed);
  }

  // Returns true if it may be approved now; otherwise shows the beginning of the text, and says so.
  check() {
    if (this.seen) return true;
    (this.begin ?? this.root).scrollIntoView({ block: "center" });
    say(word("look"));
    return false;
  }
}

// The second step of a mail with a serious warning: the bar opens first, and only its own button approves.
export function approveIn(root, look) {
  if (!look.check()) return;
  const bar = root.querySelector('details[data-key="a"]');
  const form = root.querySelector("form[data-action=approve-next]") ?? root.querySelector("form[data-action=approve]");
  if (!bar) form?.requestSubmit();
  else { bar.open = true; form?.querySelector("button").focus(); }
}

export function reveal(root, key) {
  const place = root?.querySelector(`details[data-key="${key}"]`);
  if (!place) return false;
  place.open = true;
  place.querySelector("textarea")?.focus();
  return true;
}
