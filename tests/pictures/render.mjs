// Draws scenes.json (see scenes.py) as one PNG a scene, as wide as a phone.
import { readFileSync, writeFileSync } from "node:fs";
import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { Message } from "slack-blocks-to-jsx";
import puppeteer from "puppeteer-core";

const [, , scenesFile, out, chromium] = process.argv;
const scenes = JSON.parse(readFileSync(scenesFile, "utf8"));
const style = readFileSync("node_modules/slack-blocks-to-jsx/dist/style.css", "utf8");
const page = `body{width:375px;margin:0;padding:12px;font-family:Noto Sans,Lato,sans-serif;background:#fff;
  box-sizing:border-box;overflow-wrap:anywhere}
  h6{margin:18px 0 4px;color:#888;font:12px monospace}
  .frame{border:1px solid #bbb;border-radius:8px;padding:8px;margin-bottom:4px}
  .bar{display:flex;justify-content:space-between;border-bottom:1px solid #ddd;padding-bottom:6px;font-weight:700}
  .foot{display:flex;gap:8px;justify-content:flex-end;border-top:1px solid #ddd;padding-top:6px}
  .foot span{border:1px solid #888;border-radius:4px;padding:4px 10px}
  .foot span:last-child{background:#007a5a;color:#fff}
  pre{white-space:pre-wrap}`;

function escaped(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

// slack-blocks-to-jsx 1.1.1 shows verbatim mrkdwn unformatted; Slack only adds no links of its own.
function plainly(value) {
  if (Array.isArray(value)) return value.map(plainly);
  if (value === null || typeof value !== "object") return value;
  const { verbatim: _, ...rest } = value;
  return Object.fromEntries(Object.entries(rest).map(([key, inner]) => [key, plainly(inner)]));
}

// It also draws only one fence in a text: each gets a block of its own here.
function apart(block) {
  const text = block.type === "section" && block.text?.type === "mrkdwn" ? block.text.text : "";
  const pieces = text.split(/(^```\n[^]*?\n```$)/m).filter((piece) => piece.trim());
  if (pieces.length < 2) return [block];
  return pieces.map((piece) => ({ ...block, text: { ...block.text, text: piece.trim() } }));
}

function drawn({ caption, shown }) {
  const view = shown.type === "modal" || shown.type === "home";
  const message = renderToStaticMarkup(
    createElement(Message, {
      blocks: shown.blocks.flatMap(apart).map(plainly),
      data: { users: [{ id: "U_ANA", name: "Ana" }, { id: "U_BEN", name: "Ben" }, { id: "U_CYN", name: "Cyn" }] },
      logo: "data:image/gif;base64,R0lGODlhAQABAIAAAB86NgAAACH5BAAAAAAALAAAAAABAAEAAAICRAEAOw==",
      name: view ? shown.type : "Interlock",
      time: new Date(0),
      showBlockKitDebug: false,
    }),
  );
  const bar = shown.title ? `<div class="bar">${escaped(shown.title.text)}<span>✕</span></div>` : "";
  const buttons = [shown.close, shown.submit].filter(Boolean);
  const foot = buttons.length
    ? `<div class="foot">${buttons.map((b) => `<span>${escaped(b.text)}</span>`).join("")}</div>`
    : "";
  return `<h6>${escaped(caption)}</h6><div class="frame">${bar}${message}${foot}</div>`;
}

const browser = await puppeteer.launch({
  executablePath: chromium,
  args: ["--no-sandbox", "--hide-scrollbars"],
});
const tab = await browser.newPage();
await tab.setViewport({ width: 375, height: 700 });
for (const [name, pictures] of Object.entries(scenes)) {
  const html = `<meta charset="utf-8"><style>${style}${page}</style>${pictures.map(drawn).join("")}`;
  await tab.setContent(html);
  await tab.screenshot({ path: `${out}/${name}.png`, fullPage: true });
  console.log(`${out}/${name}.png`);
}
await browser.close();
