// Writes the list of the bundle's files for the server, or with `check` compares it. Checks the size of the first page.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const FIRST_PAGE_BYTES_MAX = 150_000;

const crate = new URL("../crates/http/", import.meta.url);
const assets = readdirSync(new URL("dashboard/assets/", crate)).sort();
const rows = [
  '    ("index.html", include_bytes!("../../dashboard/index.html")),',
  ...assets.map((name) => `    ("${name}", include_bytes!("../../dashboard/assets/${name}")),`),
];
const list = `//! The files of the dashboard. \`npm run build\` in \`dashboard/\` writes this list.

#[rustfmt::skip]
pub(super) const FILES: &[(&str, &[u8])] = &[
${rows.join("\n")}
];
`;
const listed = new URL("src/dashboard/assets.rs", crate);
if (process.argv[2] !== "check") {
  writeFileSync(listed, list);
} else if (readFileSync(listed, "utf8") !== list) {
  console.error("crates/http/src/dashboard/assets.rs does not list the bundle: run `npm run build`");
  process.exit(1);
}

const index = readFileSync(new URL("dashboard/index.html", crate), "utf8");
const first = assets.filter((name) => index.includes(name));
const bytes = [index, ...first.map((name) => readFileSync(new URL(`dashboard/assets/${name}`, crate)))]
  .map((content) => gzipSync(content).length)
  .reduce((sum, size) => sum + size, 0);
console.log(`first page: ${bytes} bytes compressed`);
if (bytes > FIRST_PAGE_BYTES_MAX) {
  console.error(`the first page has ${bytes} bytes compressed, more than ${FIRST_PAGE_BYTES_MAX}`);
  process.exit(1);
}
