// The pages work without any of this; it makes them quicker for who works in them all day.
import { followClocks } from "./clocks.js";
import { listen } from "./keys.js";
import { follow } from "./live.js";
import { openPalette } from "./palette.js";
import { startQueue } from "./queue.js";
import { startReview } from "./review.js";

const page = document.body.dataset.page;
const actions = page === "queue" ? startQueue() : page === "review" ? startReview() : {};
listen(actions, openPalette);
followClocks();
if (document.body.dataset.live) follow();
