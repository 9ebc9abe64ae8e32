// A mail with a serious warning needs a fresh sign-in: one touch on the passkey, in the same form as the approval.
// Without a touch the form goes as it is, and the server asks on its own page, where other ways are too.
export function askPasskeys() {
  document.addEventListener("submit", async (event) => {
    const form = event.target.closest("form[data-passkey]");
    if (!form || event.defaultPrevented || !window.PublicKeyCredential?.parseRequestOptionsFromJSON) return;
    event.preventDefault();
    if (form.dataset.asking) return;  // a second touch on the button
    form.dataset.asking = "";
    try {
      const answer = await fetch(form.dataset.passkey, { headers: { Accept: "application/json" } });
      if (answer.status === 200) {
        const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON((await answer.json()).publicKey);
        const credential = await navigator.credentials.get({ publicKey });
        form.elements.credential.value = JSON.stringify(credential.toJSON());
      }
    } catch { /* no touch, or no answer */ }
    form.submit();
  });
}

// The pages of allauth report their errors here; without this a button would do nothing.
export function tellPasskeyErrors() {
  document.addEventListener("allauth.error", (event) => {
    const place = document.querySelector("[data-passkey-error]");
    if (!place) return;
    event.preventDefault();
    const name = event.detail.exception?.name;
    place.textContent = place.dataset[{ SecurityError: "address", NotAllowedError: "unused", InvalidStateError: "known" }[name]] ?? place.dataset.other;
    place.hidden = false;
  });
}
