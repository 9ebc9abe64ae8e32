// The pages work without scripts; scripts make them quicker for people who use them all day.
import { startApp } from "./app.js";
import { followClocks } from "./clocks.js";
import { addCopyButtons } from "./copy.js";
import { keepTyped } from "./kept.js";
import { listen } from "./keys.js";
import { follow } from "./live.js";
import { openPalette } from "./palette.js";
import { askPasskeys, tellPasskeyErrors } from "./passkey.js";
import { startPrograms } from "./programs.js";
import { startQueue } from "./queue.js";
import { offerQuotes } from "./quote.js";
import { startReview } from "./review.js";

const page = document.body.dataset.page;
const actions = page === "queue" ? startQueue() : page === "review" ? startReview() : {};
listen(actions, openPalette);
askPasskeys();
tellPasskeyErrors();
followClocks();
addCopyButtons();
offerQuotes();
keepTyped();
if (document.body.dataset.live) follow();
const sign = document.querySelector("[data-connected]");
if (sign) startPrograms(sign);
if (document.querySelector(".rail")) startApp();
// The current tab stays visible on a narrow screen.
for (const here of document.querySelectorAll(".tabs [aria-current]")) {
  const strip = here.parentElement;
  strip.scrollLeft = Math.max(here.offsetLeft + here.offsetWidth - strip.clientWidth + 24, 0);
}
