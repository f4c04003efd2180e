import { copyFileSync, existsSync, readFileSync, readdirSync, statSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitepress";

const HERE = fileURLToPath(new URL("..", import.meta.url));
const ROOT = join(HERE, "..");

/** The pages besides those of `docs/`, and their addresses. */
const OTHERS = {
  "README.md": "about.md",
  "ARCHITECTURE.md": "architecture.md",
  "CONTRIBUTING.md": "contributing.md",
  "CHANGELOG.md": "changelog.md",
  "SECURITY.md": "security.md",
  "clients/typescript/README.md": "typescript.md",
  "clients/go/README.md": "go.md",
  "dashboard/README.md": "dashboard-sources.md",
  "deploy/helm/README.md": "helm.md",
};

/** The sections of the sidebar. The first page has a table of all pages. */
const SIDEBAR = [
  ["Start", ["tutorials/first-order", "installation", "guarantees", "glossary", "coming-from", "assistants"]],
  ["Tutorials", ["tutorials/unique-username", "tutorials/exactly-once-consumer", "tutorials/code-graph", "tutorials/three-nodes"]],
  ["Guides", [
    "guides/retry-safely", "guides/read-a-store-from-kafka", "guides/erase-a-person", "guides/back-up-and-restore", "guides/full-disk",
    "guides/monitor-and-alert", "guides/run-as-a-service", "guides/upgrade", "guides/secure-a-server", "guides/migrate",
  ]],
  ["Models", ["events", "jobs", "kafka", "sql"]],
  ["Interfaces", ["http", "grpc", "python", "rust-client", "typescript", "go", "errors"]],
  ["Operations", ["settings", "cluster", "helm", "dashboard", "metrics", "logs", "tls", "access", "rights", "damage", "benchmarks"]],
  ["Inside", ["architecture", "file-format", "agreement", "simulation", "testing", "canaries", "contributing", "changelog", "security"]],
];

/** Files of `docs/` that the site has as they are. */
const FILES = ["docs/openapi.json", "docs/llms.txt"];

/** The source of an address of the site. */
function sourceOf(page) {
  const other = Object.entries(OTHERS).find(([, address]) => address === `${page}.md`);
  return other === undefined ? `docs/${page}.md` : other[0];
}

function titleOf(source) {
  const title = /^# (.+)$/m.exec(readFileSync(join(ROOT, source), "utf8"));
  if (title === null) throw new Error(`${source} has no title`);
  return title[1].replaceAll("`", "");
}

/** Why the design is as it is, in the order of the numbers. */
const DECISIONS = readdirSync(join(ROOT, "docs/decisions")).filter((file) => file.endsWith(".md")).sort().map((file) => `decisions/${file.slice(0, -3)}`);

const section = ([text, pages]) => ({ text, items: pages.map((page) => ({ text: titleOf(sourceOf(page)), link: `/${page}` })) });

const isPage = (file) => file.startsWith("docs/") ? file.endsWith(".md") : file in OTHERS;

/** Links to pages have their titles in the place of file names. Links to sources become text: the site has none. */
function linksToPages(markdown) {
  markdown.core.ruler.push("links-to-pages", ({ tokens, env }) => {
    for (const { children } of tokens) {
      let isText = false;
      for (const [at, token] of (children ?? []).entries()) {
        if (token.type === "link_open") {
          isText = !isLink(token, children[at + 1], relative(ROOT, env.realPath ?? env.path));
          token.hidden = isText;
        } else if (token.type === "link_close") {
          token.hidden = isText;
        }
      }
    }
  });
  for (const rule of ["link_open", "link_close"]) {
    const render = markdown.renderer.rules[rule] ?? ((tokens, at, options, _, self) => self.renderToken(tokens, at, options));
    markdown.renderer.rules[rule] = (tokens, at, ...rest) => (tokens[at].hidden ? "" : render(tokens, at, ...rest));
  }
}

/** Whether a link of this source leads to something on the site. Sets its address there. */
function isLink(link, text, source) {
  const [path, place] = (link.attrGet("href") ?? "").split("#");
  if (path === "" || /^[a-z]+:/.test(path)) return true;
  const target = relative(ROOT, resolve(ROOT, dirname(source), decodeURI(path)));
  if (!existsSync(join(ROOT, target))) throw new Error(`${source} links to ${path}, which is not there`);
  if (FILES.includes(target)) {
    link.attrSet("href", `/${basename(target)}`);
    // It is no page of the router.
    link.attrSet("target", "_self");
    return true;
  }
  const page = statSync(join(ROOT, target)).isDirectory() ? join(target, "README.md") : target;
  if (!isPage(page) || !existsSync(join(ROOT, page))) return target.endsWith(".png");
  link.attrSet("href", `${addressOf(page)}${place === undefined ? "" : `#${place}`}`);
  if (text?.content === path) text.content = titleOf(page);
  return true;
}

function addressOf(source) {
  const address = OTHERS[source] ?? source.slice("docs/".length);
  return `/${address.replace(/(^|\/)README\.md$/, "$1").replace(/\.md$/, "")}`;
}

/** `llms.txt` links to pages of the site, which no other check reads. */
function checkTextFile(outDir) {
  for (const [, path] of readFileSync(join(ROOT, "docs/llms.txt"), "utf8").matchAll(/\]\(([^)]*)\)/g)) {
    if (!existsSync(join(outDir, `${path}.html`))) throw new Error(`docs/llms.txt links to ${path}, which is no page of the site`);
  }
}

export default defineConfig({
  title: "Quire",
  description: "One durable log for streams, events, jobs and graphs",
  srcDir: "..",
  srcExclude: ["**/target/**", "**/node_modules/**", "crates/**", "tests/**", "examples/**", "site/**", "bindings/**", "fuzz/**"],
  rewrites: (path) => OTHERS[path] ?? path.replace(/^docs\//, "").replace(/(^|\/)README\.md$/, "$1index.md"),
  outDir: join(ROOT, "target/site"),
  cleanUrls: true,
  lastUpdated: false,
  markdown: { config: linksToPages },
  // The pages are outside of this directory, which has the packages.
  vite: { resolve: { alias: ["vue/server-renderer", "vue"].map((name) => ({ find: new RegExp(`^${name}$`), replacement: join(HERE, "node_modules", name) })) } },
  buildEnd: ({ outDir }) => {
    FILES.forEach((file) => copyFileSync(join(ROOT, file), join(outDir, basename(file))));
    checkTextFile(outDir);
  },
  themeConfig: {
    search: { provider: "local" },
    outline: [2, 3],
    nav: [{ text: "First order", link: "/tutorials/first-order" }, { text: "All pages", link: "/" }],
    sidebar: [...SIDEBAR.map(section), { ...section(["Decisions", DECISIONS]), collapsed: true }],
  },
});
