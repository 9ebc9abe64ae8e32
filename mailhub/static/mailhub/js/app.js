// mailhub as an app: the service worker, and the section "This device" of the page of notifications.
let prompt = null; // the browser's own offer to install, kept for the button

addEventListener("beforeinstallprompt", (event) => {
  event.preventDefault();
  prompt = event;
  offerInstall();
});

export function startApp() {
  if (!("serviceWorker" in navigator)) { showDevice("unsupported"); return; }
  navigator.serviceWorker.register("/sw.js");
  const out = document.querySelector("form[data-action=sign-out]");
  out?.addEventListener("submit", (event) => leave(event, out));
  if (device()) startDevice();
  offerInstall();
}

const device = () => document.querySelector("[data-device]");

// Shows the one sentence of the section that is true.
function showDevice(state) {
  for (const each of device()?.querySelectorAll("[data-state]") ?? []) each.hidden = each.dataset.state !== state;
}

async function startDevice() {
  if (!("PushManager" in window)) { showDevice(isApple() ? "apple" : "unsupported"); return; }
  if (Notification.permission === "denied") { showDevice("denied"); return; }
  const found = await subscription();
  const known = found && device().dataset.known.split(" ").includes(await digest(found.endpoint));
  showDevice(known ? "on" : "off");
  device().querySelector("form").addEventListener("submit", turnOn);
}

// An iPhone has push only in the installed app.
const isApple = () => /iPhone|iPad/.test(navigator.userAgent) || (navigator.maxTouchPoints > 1 && /Mac/.test(navigator.userAgent));

async function subscription() {
  const registration = await navigator.serviceWorker.ready;
  return registration.pushManager.getSubscription();
}

async function turnOn(event) {
  event.preventDefault();
  const form = event.target;
  const button = form.querySelector("button");
  button.disabled = true;
  try {
    if (await Notification.requestPermission() !== "granted") { showDevice("denied"); return; }
    const made = (await subscribe(form.elements.key.value)).toJSON();
    form.elements.endpoint.value = made.endpoint;
    form.elements.p256dh.value = made.keys.p256dh;
    form.elements.auth.value = made.keys.auth;
    form.submit();
  } catch {
    showDevice("failed");
  } finally {
    button.disabled = false;
  }
}

async function subscribe(key) {
  const { pushManager } = await navigator.serviceWorker.ready;
  const options = { userVisibleOnly: true, applicationServerKey: key };
  // A subscription belongs to the server's key of its time.
  return pushManager.subscribe(options).catch(async (error) => {
    const old = await pushManager.getSubscription();
    if (!old) throw error;
    await old.unsubscribe();
    return pushManager.subscribe(options);
  });
}

// Whoever signs out gets no notifications in this browser any more.
async function leave(event, form) {
  event.preventDefault();
  const ended = subscription().then((found) => found?.unsubscribe());
  await Promise.race([ended, new Promise((resolve) => { setTimeout(resolve, 1000); })]).catch(() => {});
  form.submit();
}

async function digest(text) {
  const bytes = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return [...bytes.slice(0, 8)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

function offerInstall() {
  const button = device()?.querySelector("[data-install]");
  if (!button || !prompt) return;
  button.hidden = false;
  button.onclick = async () => {
    await prompt.prompt();
    prompt = null;
    button.hidden = true;
  };
}
