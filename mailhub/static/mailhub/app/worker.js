// The service worker. It keeps the shell (the offline page, its styles and icons), shows push messages and opens
// pages. It never stores a page, an answer or a mail, and it decides nothing: a notification has no buttons.
// /sw.js puts SHELL = { version, page, files } before these lines.
const STORE = `shell-${SHELL.version}`;

addEventListener("install", (event) => {
  event.waitUntil(caches.open(STORE).then((store) => store.addAll([SHELL.page, ...SHELL.files])).then(() => skipWaiting()));
});

addEventListener("activate", (event) => {
  event.waitUntil(
    caches.keys()
      .then((names) => Promise.all(names.filter((name) => name !== STORE).map((name) => caches.delete(name))))
      .then(() => clients.claim()),
  );
});

addEventListener("fetch", (event) => {
  const { request } = event;
  const own = new URL(request.url);
  if (request.method !== "GET" || own.origin !== location.origin) return;
  const page = request.mode === "navigate" && request.destination === "document";
  if (!page && !SHELL.files.includes(own.pathname)) return;
  // The network always comes first. Nothing that arrives is stored.
  event.respondWith(fetch(request).catch(async (error) => {
    const kept = await caches.match(page ? SHELL.page : own.pathname);
    if (!kept) throw error;
    return kept;
  }));
});

addEventListener("push", (event) => {
  event.waitUntil(take(event.data.json()));
});

async function take(said) {
  count(said.badge);
  if (said.close) return close(said.close);
  return registration.showNotification(said.title, {
    tag: said.tag,
    body: said.body,
    lang: said.lang,
    icon: SHELL.icon,
    badge: SHELL.badge,
    data: { url: said.url },
  });
}

async function close(tag) {
  for (const shown of await registration.getNotifications({ tag })) shown.close();
}

function count(waiting) {
  if (!("setAppBadge" in navigator)) return;
  const done = waiting ? navigator.setAppBadge(waiting) : navigator.clearAppBadge();
  done.catch(() => {});  // no badge where the app is not installed
}

addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(open(event.notification.data?.url ?? "/"));
});

async function open(path) {
  const address = new URL(path, location.origin);
  if (address.origin !== location.origin) return;
  const [window] = await clients.matchAll({ type: "window" });
  if (!window) {
    await clients.openWindow(address.href);
    return;
  }
  // A page that is open is used again. The browser may refuse to move it: then a new one opens.
  await window.focus().catch(() => {});
  await window.navigate(address.href).catch(() => clients.openWindow(address.href));
}
