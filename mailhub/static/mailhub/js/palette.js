// Ctrl K: the command palette, with all pages and actions by name.
let found = [];
let chosen = 0;

export function openPalette() {
  const dialog = document.getElementById("palette");
  if (!dialog || dialog.open) return;
  const input = dialog.querySelector("input");
  const all = commands();
  input.value = "";
  filter(dialog, all, "");
  input.oninput = () => filter(dialog, all, input.value);
  input.onkeydown = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) { event.preventDefault(); choose(dialog, chosen + step); }
    if (event.key === "Enter") { event.preventDefault(); run(dialog, found[chosen]); }
  };
  dialog.showModal();
}

function commands() {
  const seen = new Set();
  const places = [...document.querySelectorAll(".rail a:not(.brand), .strip a, .tabs a, .view a, .back, .more a, .head a")].map((link) => ({
    name: link.getAttribute("aria-label") ?? named(link),
    act: () => link.click(),
  }));
  // An action without a usable button, a filter and an order are not commands.
  const usable = (form) => !["filter", "search", "order"].includes(form.dataset.action) && form.role !== "search"
    && form.querySelector("button:not(:disabled)") && !(form.querySelector("[data-bulk]") && !document.querySelector("input[form=bulk]:checked"));
  const deeds = [...document.querySelectorAll("main form[data-action], .toast form")].filter(usable).map((form) => {
    const details = form.closest("details");
    return {
      name: named(details?.querySelector("summary") ?? form.querySelector("button")),
      act: () => {
        if (details) { details.open = true; (details.querySelector("textarea, input:not([type=hidden])") ?? details).focus(); }
        else form.querySelector("button")?.focus();
      },
    };
  });
  return [...places, ...deeds].filter(({ name }) => name && !seen.has(name) && seen.add(name));
}

// Searches all mail for the text, because the names of pages hold no mail.
function search(dialog, text) {
  const { search: words, queue } = dialog.dataset;
  return { name: words.replace("#", () => text), act: () => location.assign(`${queue}?q=${encodeURIComponent(text)}`) };
}

function named(element) {
  const copy = element?.cloneNode(true);
  for (const key of copy?.querySelectorAll("kbd, .n, .narrow-only") ?? []) key.remove();
  return (copy?.textContent ?? "").replace(/\s+/g, " ").trim();
}

function filter(dialog, all, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  found = all.filter(({ name }) => words.every((word) => name.toLowerCase().includes(word))).slice(0, 20);
  if (words.length) found.push(search(dialog, text.trim()));
  dialog.querySelector("ul").replaceChildren(...found.map((each, place) => {
    const item = document.createElement("li");
    item.id = `palette-${place}`;
    item.role = "option";
    item.textContent = each.name;
    item.onclick = () => run(dialog, each);
    return item;
  }));
  dialog.querySelector("#palette-none").hidden = found.length > 0;
  choose(dialog, 0);
}

function choose(dialog, place) {
  chosen = Math.max(0, Math.min(place, found.length - 1));
  [...dialog.querySelectorAll("li")].forEach((item, at) => item.setAttribute("aria-selected", String(at === chosen)));
  const input = dialog.querySelector("input");
  if (found.length) input.setAttribute("aria-activedescendant", `palette-${chosen}`);
  else input.removeAttribute("aria-activedescendant");
  dialog.querySelector(`#palette-${chosen}`)?.scrollIntoView({ block: "nearest" });
}

function run(dialog, command) {
  dialog.close();
  command?.act();
}
