// Opens mailhub in Firefox over WebDriver BiDi: a person signs in, approves one mail and edits another, by keyboard.
// Arguments: the program of Firefox, a link to sign in, and the page of each mail. Writes what went wrong as JSON.
import puppeteer from "puppeteer-core";

const [executablePath, link, approved, edited] = process.argv.slice(2);
const browser = await puppeteer.launch({ browser: "firefox", executablePath });
const page = await browser.newPage();
page.setDefaultTimeout(60_000);
const errors = [];
page.on("pageerror", (error) => errors.push(String(error)));
const leads = (press) => Promise.all([page.waitForNavigation(), press()]);

await page.goto(link);
await leads(() => page.click("form[data-action=sign-in] button"));
await page.goto(approved);
await page.waitForSelector("body[data-seen]"); // the text was in view for a second
await leads(() => page.keyboard.press("a")); // to the next mail that waits
await page.goto(approved);
await page.waitForFunction(() => [...document.querySelectorAll("h1")].some((each) => each.innerText === "Sent"));

await page.goto(edited);
await leads(() => page.keyboard.press("e"));
await page.focus("main [name=subject]");
await page.keyboard.press("End");
await page.keyboard.type(" from Firefox");
await leads(async () => {
  await page.keyboard.down("Control");
  await page.keyboard.press("Enter");
  await page.keyboard.up("Control");
});

await page.setViewport({ width: 390, height: 844 });
const wider = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
console.log(JSON.stringify({ version: await browser.version(), errors, wider }));
await browser.close();
