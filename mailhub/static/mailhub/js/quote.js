// A selected passage of a mail goes along with the request for changes.
import { reveal } from "./keys.js";

const MOST = 1000;

export function offerQuotes() {
  document.addEventListener("selectionchange", () => {
    const selection = document.getSelection();
    const range = selection.rangeCount ? selection.getRangeAt(0) : null;
    const body = range && (range.commonAncestorContainer.parentElement ?? range.commonAncestorContainer).closest("[data-quotable]");
    const text = body ? selection.toString().trim().slice(0, MOST) : "";
    for (const button of document.querySelectorAll("[data-quote]")) {
      button.hidden = !text || rootOf(button) !== rootOf(body);
      if (button.hidden) continue;
      const place = range.getBoundingClientRect();
      button.style.top = `${Math.min(place.bottom + 6, innerHeight - 120)}px`;
      button.style.left = `${Math.max(8, Math.min(place.left, innerWidth - button.offsetWidth - 8))}px`;
      button.dataset.text = text;
    }
  });
  document.addEventListener("pointerdown", (event) => {
    if (event.target.closest("[data-quote]")) event.preventDefault(); // the passage stays selected
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-quote]");
    if (button) quote(button);
    const drop = event.target.closest("[data-passage-drop]");
    if (drop) fill(drop.form, "");
  });
}

// The key of the request for changes takes the passage along, if one is selected.
export function quoteAndReveal(root) {
  const button = root?.querySelector("[data-quote]:not([hidden])");
  return button ? quote(button) : reveal(root, "c");
}

function quote(button) {
  fill(rootOf(button).querySelector("form[data-action=ask_back]"), button.dataset.text);
  document.getSelection().removeAllRanges();
  return reveal(rootOf(button), "c");
}

function rootOf(element) {
  return element?.closest("#pane") ?? document;
}

function fill(form, text) {
  const shown = form.querySelector("[data-passage-shown]");
  form.querySelector("[data-passage]").value = text;
  shown.querySelector("[data-words]").textContent = text.length > 200 ? `${text.slice(0, 200)}…` : text;
  shown.hidden = !text;
}
