// A button that copies, beside each element with data-copy: a block of lines, or a read-only field.
import { word } from "./words.js";

export function addCopyButtons() {
  if (!navigator.clipboard) return; // a browser has it only on https and on localhost
  for (const shown of document.querySelectorAll("[data-copy]")) addButton(shown);
}

function addButton(shown) {
  const button = Object.assign(document.createElement("button"), {
    type: "button", className: "btn small copy", textContent: word("copy"),
  });
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(shown.value ?? shown.textContent);
    button.textContent = word("copied");
  });
  const box = Object.assign(document.createElement("div"), { className: "copied" });
  shown.replaceWith(box);
  box.append(shown, button);
}
