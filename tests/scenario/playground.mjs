// A person in the Agents Playground: mentions the bot, approves what it asks, and fills in a form.
// node playground.mjs PLAYWRIGHT ADDRESS CHROMIUM DIRECTORY
import { createRequire } from "node:module";

const [, , home, address, executablePath, out] = process.argv;
const { chromium } = createRequire(`${home}/`)("playwright-core");
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width: 1300, height: 1400 } });
page.setDefaultTimeout(15000);

async function mention(box, text) {
  await box.click();
  await page.keyboard.type("@");
  await page.getByRole("menuitem", { name: "Interlock" }).first().click();
  await page.keyboard.type(` ${text}`);
  await page.keyboard.press("Enter");
}

const button = (name) => page.getByRole("button", { name, exact: true }).last();
const seen = (text) => page.getByText(text).last().waitFor();

try {
  await page.goto(address, { waitUntil: "domcontentloaded" });
  await page.getByRole("treeitem", { name: "Incidents" }).first().click();
  await mention(page.getByRole("textbox").first(), "checkout is slow");
  await button("Approve").waitFor();
  await page.screenshot({ path: `${out}/asked.png` });
  await button("Approve").click();
  await seen("Approved by Ana");
  await seen("Write anything to see a form next.");
  await page.screenshot({ path: `${out}/approved.png` });
  // The first begins a thread, the second answers in the newest one; below stands the welcome.
  await mention(page.getByRole("textbox").nth(1), "go on");
  await button("Send").waitFor();
  await page.screenshot({ path: `${out}/form.png` });
  await page.getByRole("radio", { name: "High" }).click();
  await page.getByRole("textbox", { name: "Summary" }).fill("checkout was slow");
  await page.getByRole("spinbutton", { name: "Customers affected" }).fill("12");
  await button("Send").click();
  await seen("Write anything to be asked two questions.");
  await page.screenshot({ path: `${out}/sent.png` });
} catch (error) {
  await page.screenshot({ path: `${out}/failed.png` });
  throw error;
} finally {
  await browser.close();
}
