// The page "Connect a program": the sign that a program has called.
const EVERY = 3000;
const TIMES = 600; // half an hour

export const startPrograms = (sign) => wait(sign, TIMES);

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
