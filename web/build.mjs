// Bundles the pages into a script each and one style sheet: node build.mjs FOLDER
import { build } from "esbuild";

const folder = process.argv[2];
if (folder === undefined) throw new Error("usage: node build.mjs FOLDER");
await build({
  absWorkingDir: import.meta.dirname,
  entryPoints: [
    { in: "src/main.ts", out: "page" },
    { in: "src/diff.ts", out: "diff" },
    { in: "src/results.ts", out: "results" },
    { in: "src/page.css", out: "page" },
  ],
  outdir: folder,
  bundle: true,
  format: "iife",
  target: ["es2022", "chrome109", "firefox115", "safari16.4"],
  charset: "utf8",
  minify: true,
  legalComments: "none",
  logLevel: "warning",
});
