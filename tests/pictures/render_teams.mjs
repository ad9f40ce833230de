// Draws teams_scenes.json (see teams_scenes.py) as one PNG a card, as wide as Teams on a phone,
// light and dark side by side. Exits with 1 if the parser finds something wrong with a card.
import { readFileSync } from "node:fs";
import puppeteer from "puppeteer-core";

const [, , scenesFile, out, executablePath] = process.argv;
const scenes = JSON.parse(readFileSync(scenesFile, "utf8"));
const library = readFileSync("node_modules/adaptivecards/dist/adaptivecards.min.js", "utf8");

const fontSizes = { small: 12, default: 14, medium: 16, large: 18, extraLarge: 24 };
const fontWeights = { lighter: 200, default: 400, bolder: 600 };

function theme(dark) {
  const colour = (plain, subtle) => ({ default: plain, subtle });
  const text = {
    default: dark ? colour("#ffffff", "#adadad") : colour("#242424", "#616161"),
    accent: dark ? colour("#9299f7", "#7f85f5") : colour("#5b5fc7", "#7579eb"),
    good: dark ? colour("#54b054", "#359b35") : colour("#0e700e", "#107c10"),
    attention: dark ? colour("#dc626d", "#cc2635") : colour("#b10e1c", "#c50f1f"),
    warning: dark ? colour("#fefa86", "#ac8f00") : colour("#835b00", "#a47800"),
  };
  return {
    supportsInteractivity: true,
    fontFamily: "Segoe UI, Noto Sans, sans-serif",
    fontTypes: { default: { fontFamily: "Segoe UI, Noto Sans, sans-serif", fontSizes, fontWeights }, monospace: { fontWeights, fontFamily: "Consolas, Noto Sans Mono, DejaVu Sans Mono, monospace",
      fontSizes } },
    fontSizes,
    fontWeights,
    spacing: { small: 8, default: 12, medium: 16, large: 20, extraLarge: 24, padding: 16 },
    separator: { lineThickness: 1, lineColor: dark ? "#3d3d3d" : "#e0e0e0" },
    containerStyles: { default: { backgroundColor: dark ? "#292929" : "#ffffff", foregroundColors: text },
      emphasis: { backgroundColor: dark ? "#1f1f1f" : "#f5f5f5", foregroundColors: text } },
    actions: { maxActions: 6, spacing: "default", buttonSpacing: 8, actionsOrientation: "horizontal",
      actionAlignment: "left", showCard: { actionMode: "inline" } },
    inputs: { label: { inputSpacing: "small", requiredInputs: { weight: "bolder", suffix: " *", suffixColor: "attention" },
      optionalInputs: { weight: "bolder" } }, errorMessage: { color: "attention" } },
  };
}

const style = `body{margin:0;display:flex;background:#888;width:840px;font:14px Segoe UI,Noto Sans,sans-serif}
  .side{width:420px;box-sizing:border-box;padding:12px;overflow-wrap:anywhere}
  .light{background:#f5f5f5;color:#242424}.dark{background:#1f1f1f;color:#fff;color-scheme:dark}
  .ac-adaptiveCard{border-radius:6px;border:1px solid #8884}
  .at{color:#5b5fc7}.dark .at{color:#9299f7}
  .ac-actionSet{flex-wrap:wrap;row-gap:8px}
  button{font:600 14px Segoe UI,Noto Sans,sans-serif;border:1px solid #8888;border-radius:4px;padding:6px 12px;
    background:transparent;color:inherit;white-space:normal}
  button.style-positive{background:#5b5fc7;color:#fff}button.style-destructive{color:#c4314b}
  .dark button.style-destructive{color:#f9526b}
  .ac-input:not([type=radio]):not([type=checkbox]){width:100%;box-sizing:border-box;padding:5px;font:inherit}`;

const browser = await puppeteer.launch({ executablePath, args: ["--no-sandbox", "--hide-scrollbars"] });
const tab = await browser.newPage();
let wrong = 0;
for (const [name, card] of Object.entries(scenes)) {
  await tab.setViewport({ width: 840, height: 300 });
  await tab.setContent(`<!doctype html><meta charset="utf-8"><style>${style}</style><body></body>`);
  await tab.addScriptTag({ content: library });
  const found = await tab.evaluate((given, themes) => {
    const events = [];
    AdaptiveCards.AdaptiveCard.onProcessMarkdown = (text, result) => {
      const safe = text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
      result.outputHtml = safe
        .replace(/\*\*(.+?)\*\*/g, "<b>$1</b>")
        .replace(/&lt;at>(.+?)&lt;\/at>/g, '<span class="at">$1</span>');
      result.didProcess = true;
    };
    for (const [side, config] of Object.entries(themes)) {
      const card = new AdaptiveCards.AdaptiveCard();
      card.hostConfig = new AdaptiveCards.HostConfig(config);
      const context = new AdaptiveCards.SerializationContext();
      card.parse(given, context);
      for (let n = 0; n < context.eventCount; n++) events.push(context.getEventAt(n).message);
      for (const one of card.validateProperties().validationEvents) events.push(one.message);
      const frame = document.createElement("div");
      frame.className = `side ${side}`;
      frame.append(card.render());
      document.body.append(frame);
    }
    return [...new Set(events)];
  }, card, { light: theme(false), dark: theme(true) });
  for (const message of found) console.error(`WRONG ${name}: ${message}`);
  wrong += found.length;
  const height = await tab.evaluate(() => Math.ceil(document.body.getBoundingClientRect().height));
  await tab.setViewport({ width: 840, height }); // fullPage cuts at times
  await tab.screenshot({ path: `${out}/teams-${name}.png` });
  console.log(`${out}/teams-${name}.png`);
}
await browser.close();
process.exitCode = wrong ? 1 : 0;
