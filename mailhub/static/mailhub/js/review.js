// The page of one mail: its keys, and the other people who view it.
import { InView, reveal } from "./keys.js";
import { say, word } from "./words.js";

const HERE_EVERY = 10_000;
const view = new InView();
const inLine = document.body.dataset.line !== undefined;

export function startReview() {
  view.begin();
  document.addEventListener("visibilitychange", () => { view.begin(); if (!document.hidden) here(); });
  document.querySelector("iframe.frame")?.addEventListener("load", () => view.begin(), { once: true });
  if (inLine) watchLine();
  here();
  setInterval(here, HERE_EVERY);
  document.body.addEventListener("rung", here);
  addEventListener("pagehide", () => navigator.sendBeacon(document.body.dataset.presence, form({ going: "1" })));
  return {
    a: approve,
    e: () => document.querySelector("form[data-action=edit]")?.requestSubmit(),
    c: () => reveal(document, "c"),
    r: () => reveal(document, "r"),
    ...(inLine ? { j: () => document.querySelector("[data-skip]")?.click() } : {}),
    u: () => location.assign(document.body.dataset.back),
  };
}

// In the line the button of the next mail comes where the last one was, so a second tap must decide nothing.
function watchLine() {
  document.addEventListener("submit", (event) => {
    if (event.target.dataset.action !== "approve" || view.long()) return;
    event.preventDefault();
    say(word("look"));
  });
  const watch = setInterval(() => {
    if (!view.long()) return;
    clearInterval(watch);
    document.body.dataset.line = "seen";
  }, 100);
}

function approve() {
  const next = document.querySelector("form[data-action=approve-next]") ?? document.querySelector("form[data-action=approve]");
  if (!next) return;
  if (!document.querySelector("[data-changed]").hidden) { say(word("changed")); return; }
  if (!view.long()) { say(word("look")); return; }
  next.requestSubmit();
}

function form(fields) {
  const token = document.querySelector("input[name=csrfmiddlewaretoken]")?.value ?? "";
  return new URLSearchParams({ csrfmiddlewaretoken: token, ...fields });
}

async function here() {
  if (document.hidden) return;
  const talk = document.querySelector("[data-comments]");
  const shown = talk?.querySelectorAll(".comments > li").length ?? "";
  let answer;
  try {
    answer = await fetch(document.body.dataset.presence, { method: "POST", body: form({ revision: document.body.dataset.revision, comments: shown }) });
    if (answer.redirected || !answer.ok) return;
  } catch { return; }
  const found = await answer.json();
  const place = document.querySelector("[data-looking]");
  const names = found.others.join(", ");
  if (place) place.textContent = names ? ` · ${word(found.others.length > 1 ? "reviewingMany" : "reviewingOne", names)}` : "";
  if (found.comments) talk.innerHTML = found.comments; // the form below keeps what is typed
  if (found.mark !== document.body.dataset.mark) document.querySelector("[data-changed]").hidden = false;
}
