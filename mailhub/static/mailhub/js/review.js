// The page of one mail: its keys, and the other people who view it.
import { Look, approveIn, reveal } from "./keys.js";
import { quoteAndReveal } from "./quote.js";
import { say, word } from "./words.js";

const HERE_EVERY = 10_000;
let look;
const inLine = document.body.dataset.line !== undefined;

export function startReview() {
  look = new Look(document.body, { known: document.body.dataset.known !== undefined, post: () => here({ revision: document.body.dataset.revision }) });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) here(); });
  document.addEventListener("submit", (event) => {
    if (event.target.dataset.action?.startsWith("approve") && !look.check()) event.preventDefault();
  });
  here();
  if (document.body.dataset.refresh) setInterval(refresh, document.body.dataset.refresh * 1000);
  setInterval(() => here(), HERE_EVERY);
  document.body.addEventListener("rung", () => here());
  addEventListener("pagehide", () => navigator.sendBeacon(document.body.dataset.presence, form({ going: "1" })));
  return {
    a: approve,
    e: () => document.querySelector("form[data-action=edit]")?.requestSubmit(),
    c: () => quoteAndReveal(document),
    r: () => reveal(document, "r"),
    ...(inLine ? { j: () => document.querySelector("[data-skip]")?.click() } : {}),
    u: () => location.assign(document.body.dataset.back),
  };
}

// Loads the page again, unless that loses what somebody is typing.
function refresh() {
  const fields = [...document.querySelectorAll("textarea")];
  if (fields.every((field) => field.value === field.defaultValue)) location.reload();
}

function approve() {
  if (!document.querySelector("form[data-action=approve]")) return;
  if (!document.querySelector("[data-changed]").hidden) { say(word("changed")); return; }
  approveIn(document, look);
}

function form(fields) {
  const token = document.querySelector("input[name=csrfmiddlewaretoken]")?.value ?? "";
  return new URLSearchParams({ csrfmiddlewaretoken: token, ...fields });
}

// Says that this person is here, and shows what others do; `fields` may say that the text was in view.
async function here(fields = {}) {
  if (document.hidden) return false;
  const talk = document.querySelector("[data-comments]");
  const shown = talk?.querySelectorAll(".comments > li").length ?? "";
  let answer;
  try {
    answer = await fetch(document.body.dataset.presence, { method: "POST", body: form({ ...fields, comments: shown }) });
    if (answer.redirected || !answer.ok) return false;
  } catch { return false; }
  const found = await answer.json();
  const place = document.querySelector("[data-looking]");
  const names = found.others.join(", ");
  if (place) place.textContent = names ? ` · ${word(found.others.length > 1 ? "reviewingMany" : "reviewingOne", names)}` : "";
  if (found.comments) talk.innerHTML = found.comments; // the form below keeps what is typed
  if (found.mark !== document.body.dataset.mark) document.querySelector("[data-changed]").hidden = false;
  return true;
}
