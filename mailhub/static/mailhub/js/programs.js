// The page "Connect a program": buttons that copy, and the sign that a program has called.
const EVERY = 3000;
const TIMES = 600; // half an hour

export function startPrograms(sign) {
  for (const lines of document.querySelectorAll("pre[data-copy]")) addCopy(lines, sign.dataset);
  wait(sign, TIMES);
}

function addCopy(lines, words) {
  const button = Object.assign(document.createElement("button"), {
    type: "button", className: "btn small copy", textContent: words.copyLabel,
  });
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(lines.textContent);
    button.textContent = words.copiedLabel;
  });
  const box = Object.assign(document.createElement("div"), { className: "copied" });
  lines.replaceWith(box);
  box.append(lines, button);
}

async function wait(sign, left) {
  if (left === 0) return;
  if (!document.hidden) {
    const address = `${sign.dataset.connected}?since=${encodeURIComponent(sign.dataset.since)}`;
    const answer = await fetch(address).then((found) => found.ok ? found.json() : null, () => null);
    if (answer?.connected.length) {
      sign.textContent = `✅ ${sign.dataset.name} ${answer.connected.join(", ")}`;
      sign.className = "note ok";
      return;
    }
  }
  setTimeout(() => wait(sign, left - 1), EVERY);
}
