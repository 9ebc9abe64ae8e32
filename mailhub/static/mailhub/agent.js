// The chat: sends the question, shows the stream as it arrives, and follows the pending actions.
// The stream is added to the page as text, never as markup. At its end the server's own HTML of the whole conversation
// replaces it. A failed step is not red, because a turn often goes on after it.

const form = document.querySelector("form[data-chat]");
const talk = document.querySelector("[data-talk]");
const held = document.querySelector("[data-held]");
const box = form.elements.prompt;
const stop = form.querySelector("[data-stop]");
const status = document.querySelector("[data-status]");
const FOLLOW_MS = 4000;

let running = null;
let bell = null;
let looking = null;
let thread = form.dataset.thread;

function line(kind, text) {
  const item = document.createElement("li");
  item.className = kind;
  item.dir = "auto";
  item.textContent = text;
  talk.append(item);
  return item;
}

function nearTheEnd() {
  return window.innerHeight + window.scrollY > document.body.scrollHeight - 160;
}

// Returns one event of the stream: the end, an event of ours, or the joined data lines as text.
function parsed(block) {
  const lines = block.split("\n");
  const data = lines.filter((each) => each.startsWith("data:")).map((each) => each.slice(5).replace(/^ /, "")).join("\n");
  if (lines.includes("event: end")) return { end: true };
  if (data.startsWith("{") && data.length > 1) {
    try {
      return { event: JSON.parse(data) };
    } catch {
      return { text: data };
    }
  }
  return { text: data };
}

async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    buffer += value;
    const blocks = buffer.split("\n\n");
    buffer = blocks.pop();
    for (const block of blocks) yield parsed(block);
  }
}

async function ask(prompt) {
  running = new AbortController();
  document.querySelector("[data-hello]")?.remove();
  line("said mine", prompt);
  stop.hidden = false;
  form.setAttribute("aria-busy", "true");
  status.textContent = form.dataset.working;
  let answer = null;
  try {
    const response = await fetch(form.action, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-CSRFToken": form.elements.csrfmiddlewaretoken.value },
      body: JSON.stringify({ prompt, threadId: thread, mode: form.elements.mode.value }),
      signal: running.signal,
    });
    if (!response.ok) {
      const problem = await response.json().catch(() => ({}));
      line("tool bad unsaid", problem.detail || form.dataset.failed);
      return;
    }
    for await (const { text, event, end } of events(response)) {
      if (end) break;
      const follow = nearTheEnd();
      if (event) {
        answer?.removeAttribute("aria-busy");
        answer = null;
        line("tool", event.text);
      } else if (text) {
        answer ??= line("said", "");
        answer.setAttribute("aria-busy", "true");
        answer.append(text);
      }
      if (follow) window.scrollTo(0, document.body.scrollHeight);
    }
  } catch (error) {
    if (error.name === "AbortError") line("tool unsaid", form.dataset.stopped);
    else line("tool bad unsaid", form.dataset.failed);
  } finally {
    answer?.removeAttribute("aria-busy");
    form.removeAttribute("aria-busy");
    stop.hidden = true;
    running = null;
    status.textContent = form.dataset.done;
    box.focus();
    await showWhole();
    await follow();
    held.lastElementChild?.scrollIntoView({ block: "center" });
  }
}

// After a turn: the conversation as the server shows it, and the list of conversations.
async function showWhole() {
  try {
    const response = await fetch(form.dataset.talkAt, { headers: { Accept: "text/html" } });
    if (!response.ok || response.redirected) return;
    const holder = document.createElement("template");
    holder.innerHTML = await response.text();
    const parts = Object.fromEntries([...holder.content.querySelectorAll("[data-part]")].map((each) => [each.dataset.part, each]));
    const unsaid = [...talk.querySelectorAll(".unsaid")];
    talk.replaceChildren(...parts.talk.children, ...unsaid);
    document.querySelector("[data-threads]").replaceChildren(...parts.threads.children);
  } catch {
    // The text as it arrived stays.
  }
}

// Loads the proposals of this thread in their present state.
async function follow() {
  try {
    const response = await fetch(form.dataset.cards, { headers: { Accept: "text/html" } });
    if (!response.ok) return;
    const html = await response.text();
    if (html !== held.dataset.seen && !held.contains(document.activeElement)) {
      held.innerHTML = html;
      held.dataset.seen = html;
    }
  } catch {
    // The next request may succeed.
  }
  attend();
}

// While a proposal is open, the notifications of the pages say when to load again. Without a connection the page polls.
function attend() {
  const open = !document.hidden && held.querySelector("[data-open]") !== null;
  if (open && !bell) {
    poll(true);
    if (!("EventSource" in window)) return;
    bell = new EventSource(form.dataset.live);
    bell.onopen = () => { poll(false); follow(); };  // the state may have changed before the connection
    bell.onmessage = () => follow();
    bell.onerror = () => poll(true);
  } else if (!open) {
    bell?.close();
    bell = null;
    poll(false);
  }
}

function poll(on) {
  if (on) looking ??= setInterval(follow, FOLLOW_MS);  // not restarted, because a lost connection calls this often
  if (!on && looking) { clearInterval(looking); looking = null; }
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const prompt = box.value.trim();
  if (!prompt || running) return;
  box.value = "";
  ask(prompt);
});
stop.addEventListener("click", () => running?.abort());
box.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    form.requestSubmit();
  } else if (event.key === "Escape" && running) {
    running.abort();
  }
});
// A card with the keyboard's focus is replaced only when it loses the focus.
held.addEventListener("focusout", () => follow());
document.addEventListener("visibilitychange", () => (document.hidden ? attend() : follow()));
addEventListener("pagehide", () => bell?.close());
addEventListener("pageshow", (event) => {
  if (event.persisted) { bell = null; follow(); }
});
attend();
