// Edits the HTML of a mail as rich text. Each tag and attribute is kept as it is; where the editor cannot give the
// same HTML back, the source is edited instead, so nothing is lost unseen.
const MARKS = "a abbr b big cite code del em font i ins kbd mark q s small span strike strong sub sup tt u".split(" ");
const BLOCKS = {
  h1: "inline*", h2: "inline*", h3: "inline*", h4: "inline*", h5: "inline*", h6: "inline*", pre: "inline*",
  blockquote: "block+", center: "block+", div: "block+", table: "(caption | thead | tbody | tfoot)+", ul: "li+", ol: "li+",
};
const PARTS = {
  li: "block+", caption: "inline*", thead: "tr+", tbody: "tr+", tfoot: "tr+", tr: "(td | th)+", td: "block+", th: "block+",
};
const KEEPS_SPACE = "pre, [style*=white-space]";

for (const form of document.querySelectorAll("[data-rich]")) start(form);

async function start(field) {
  const source = document.getElementById(field.dataset.source);
  const { editor, isWhole } = await open(field, source);
  const choice = field.querySelector("[data-form]");
  const show = (rich) => {
    field.classList.toggle("rich", rich);
    source.hidden = rich;
    choice.setAttribute("aria-pressed", String(!rich));
    if (!rich) { source.focus(); return; }
    editor.commands.setContent(source.value, { emitUpdate: false });
    editor.commands.focus("start", { scrollIntoView: false });
    editor.view.focus(); // at once; the command waits for the next frame
  };
  field.querySelector(isWhole(source.value) ? "[data-bar]" : "[data-lossy]").hidden = false;
  if (!isWhole(source.value)) return;
  choice.addEventListener("click", () => show(isWhole(source.value) && !field.classList.contains("rich")));
  show(true);
}

async function open(field, source) {
  const lib = await import(field.dataset.rich);
  const { Editor, Extension, Mark } = lib;
  const types = ["paragraph", "image", "hr", "br", ...MARKS, ...Object.keys(BLOCKS), ...Object.keys(PARTS)];
  const node = (name, content, more = {}) => lib.Node.create({
    name, content, parseHTML: () => [{ tag: name }], renderHTML: ({ HTMLAttributes }) => [name, HTMLAttributes, 0], ...more,
  });
  const single = (name, tag, more) => lib.Node.create({
    name, parseHTML: () => [{ tag }], renderHTML: ({ HTMLAttributes }) => [tag, HTMLAttributes], ...more,
  });
  const extensions = [
    // The first block is the one that Enter makes. Text that stood in a block without a paragraph has no `kept`.
    lib.Node.create({
      name: "paragraph", group: "block", content: "inline*", priority: 1000, parseHTML: () => [{ tag: "p" }],
      renderHTML: ({ node: { attrs }, HTMLAttributes }) => ["p", attrs.kept ? HTMLAttributes : { "data-bare": "" }, 0],
    }),
    lib.Node.create({ name: "doc", topNode: true, content: "block+" }),
    lib.Node.create({ name: "text", group: "inline" }),
    ...Object.entries(BLOCKS).map(([name, content]) => node(name, content, {
      group: "block", ...(name === "pre" ? { code: true, whitespace: "pre", parseHTML: () => [{ tag: "pre", preserveWhitespace: "full" }] } : {}),
    })),
    ...Object.entries(PARTS).map(([name, content]) => node(name, content, { isolating: name === "td" || name === "th" })),
    single("image", "img", { group: "inline", inline: true, atom: true }),
    single("br", "br", { group: "inline", inline: true, selectable: false, linebreakReplacement: true }),
    single("hr", "hr", { group: "block" }),
    ...MARKS.map((name) => Mark.create({
      name, excludes: "", inclusive: name !== "a", parseHTML: () => [{ tag: name }],
      renderHTML: ({ HTMLAttributes }) => [name, HTMLAttributes, 0],
    })),
    Extension.create({
      name: "kept",
      addGlobalAttributes: () => [{ types, attributes: { kept: {
        default: null,
        parseHTML: (element) => Object.fromEntries([...element.attributes].map(({ name, value }) => [name, value])),
        renderHTML: ({ kept }) => kept ?? {},
      } } }],
      addKeyboardShortcuts: () => ({
        "Mod-b": () => run("strong"), "Mod-i": () => run("em"), "Mod-u": () => run("u"),
        "Shift-Enter": () => editor.commands.insertContent({ type: "br" }),
        "Mod-Enter": () => { source.form.requestSubmit(source.form.querySelector("button:not([type=button])")); return true; },
        Enter: () => editor.commands.splitListItem("li"),
      }),
    }),
    lib.History ?? lib.UndoRedo,
  ];
  const editor = new Editor({
    element: field.querySelector("[data-editor]"), extensions, content: source.value, injectCSS: false,
    enableInputRules: false, enablePasteRules: false,
    editorProps: { attributes: {
      class: "input", role: "textbox", dir: "auto", "aria-multiline": "true", "aria-labelledby": field.dataset.label, tabindex: "0",
    } },
    onUpdate: () => { source.value = written(editor.getHTML()); },
  });

  const same = { strong: "b", em: "i", b: "strong", i: "em" };
  const active = (name) => editor.isActive(name) || Boolean(same[name] && editor.isActive(same[name]));
  function run(name) {
    const begun = editor.chain().focus();
    if (name === "ul" || name === "ol") return begun.toggleList(name, "li").run();
    if (name === "a") {
      const before = editor.getAttributes("a").kept?.href ?? "https://";
      const href = window.prompt(field.dataset.ask, before);
      if (href === null) return true;
      const marked = begun.extendMarkRange("a");
      return (href.trim() ? marked.setMark("a", { kept: { href: href.trim() } }) : marked.unsetMark("a")).run();
    }
    const mark = same[name] && editor.isActive(same[name]) ? same[name] : name;
    return begun.toggleMark(mark).run();
  }
  const buttons = field.querySelectorAll("[data-do]");
  for (const button of buttons) button.addEventListener("click", () => run(button.dataset.do));
  editor.on("transaction", () => {
    for (const button of buttons) button.setAttribute("aria-pressed", String(active(button.dataset.do)));
  });

  const isWhole = (html) => {
    const back = lib.generateHTML(lib.generateJSON(html, extensions), extensions);
    return normal(written(back)) === normal(html);
  };
  return { editor, isWhole };
}

function parse(html) {
  return new DOMParser().parseFromString(html, "text/html").body;
}

// Takes the paragraphs away that the editor put around text that had none.
function written(html) {
  const body = parse(html);
  for (const made of [...body.querySelectorAll("p[data-bare]")]) {
    const beside = [made.previousElementSibling, made.nextElementSibling];
    if (beside.some((each) => each?.matches("p"))) made.removeAttribute("data-bare");
    else made.replaceWith(...made.childNodes);
  }
  return body.innerHTML;
}

const probe = document.createElement("i");

function styled(value) {
  probe.style.cssText = value;
  return probe.style.cssText;
}

// The same for two texts that differ only in white space that no reader sees, and in the spelling of styles.
function normal(html) {
  const walk = (node) => {
    if (node.nodeType !== Node.ELEMENT_NODE) return node.parentElement.closest(KEEPS_SPACE) ? node.data : node.data.replace(/[ \t\n\r\f]+/g, "");
    const attributes = [...node.attributes].map(({ name, value }) => `${name}=${JSON.stringify(name === "style" ? styled(value) : value)}`).sort();
    return `<${node.localName} ${attributes.join(" ")}>${[...node.childNodes].map(walk).join("")}</>`;
  };
  return walk(parse(html));
}
