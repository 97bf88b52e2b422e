// Builds the page: one file, committed as crates/layerscope-report/assets/page.html. With --check it only compares.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const target = new URL("../crates/layerscope-report/assets/page.html", import.meta.url);

async function bundle(entry, loader) {
  const result = await build({
    entryPoints: [new URL(`src/${entry}`, import.meta.url).pathname],
    bundle: true, minify: true, write: false, charset: "ascii", legalComments: "none",
    format: loader === "ts" ? "iife" : undefined, target: ["chrome111", "firefox113", "safari16.4"],
  });
  const text = result.outputFiles[0].text.trim();
  if (/<\/(script|style)|<!--/i.test(text)) throw new Error(`${entry}: contains mark-up that would end its element`);
  return text;
}

const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

const style = await bundle("style.css", "css");
const script = await bundle("main.ts", "ts");
// What the page may do: run this very program, wear this very style, show pictures it made itself. Nothing else, no network.
const policy = `default-src 'none'; script-src ${hash(script)}; style-src ${hash(style)}; img-src data: blob:; base-uri 'none'; form-action 'none'`;
const page = readFileSync(new URL("src/page.html", import.meta.url), "utf8")
  .replace("{{policy}}", () => policy)
  .replace("{{style}}", () => style)
  .replace("{{script}}", () => script);

if (process.argv.includes("--check")) {
  if (readFileSync(target, "utf8") !== page) {
    console.error("assets/page.html is not what web/ builds: run `npm ci && npm run build` in web/ and commit the result");
    process.exit(1);
  }
  console.log("assets/page.html is up to date");
} else {
  writeFileSync(target, page);
  console.log(`page.html ${(page.length / 1024).toFixed(1)} KiB`);
}
