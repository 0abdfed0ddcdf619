// Bundles scripts and style sheets: node build.mjs FOLDER NAME=SOURCE...
import { build } from "esbuild";

const [folder, ...bundles] = process.argv.slice(2);
if (bundles.length === 0) throw new Error("usage: node build.mjs FOLDER NAME=SOURCE...");
await build({
  absWorkingDir: import.meta.dirname,
  entryPoints: bundles.map((bundle) => {
    const [name, source] = bundle.split("=");
    return { in: `src/${source}`, out: name };
  }),
  outdir: folder,
  bundle: true,
  format: "iife",
  target: ["es2022", "chrome109", "firefox115", "safari16.4"],
  charset: "utf8",
  minify: true,
  legalComments: "none",
  logLevel: "warning",
});
