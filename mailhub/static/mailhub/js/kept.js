// What somebody typed is in the form again after the pages that ask whether it is still them. It stays
// in this tab until any other page, without files, hidden fields and secrets.
const KEPT = "typed";
const TYPED = "input:not([type=hidden], [type=password], [type=file]), select, textarea";

export function keepTyped() {
  const kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "null");
  if ("confirms" in document.body.dataset) {
    if (kept) sessionStorage.setItem(KEPT, JSON.stringify({ ...kept, interrupted: true }));
    return;
  }
  sessionStorage.removeItem(KEPT);
  if (kept?.interrupted && kept.page === location.pathname) putBack(kept);
  document.addEventListener("submit", ({ target }) => {
    const values = fieldsOf(target).map((field) => [field.name, valueOf(field)]);
    const { pathname: page } = location;
    sessionStorage.setItem(KEPT, JSON.stringify({ page, form: indexOf(target), values }));
  });
}

function putBack({ form, values }) {
  const fields = document.forms[form] ? fieldsOf(document.forms[form]) : [];
  if (fields.map((field) => field.name).join() !== values.map(([name]) => name).join()) return;
  fields.forEach((field, index) => {
    const value = values[index][1];
    if (["checkbox", "radio"].includes(field.type)) field.checked = value;
    else if (field.multiple) for (const option of field.options ?? []) option.selected = value.includes(option.value);
    else field.value = value;
  });
}

function fieldsOf(form) {
  return [...form.elements].filter((field) => field.matches(TYPED));
}

function valueOf(field) {
  if (["checkbox", "radio"].includes(field.type)) return field.checked;
  return field.multiple ? [...field.selectedOptions ?? []].map((option) => option.value) : field.value;
}

function indexOf(form) {
  return [...document.forms].indexOf(form);
}
