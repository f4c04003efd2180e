import { defineConfig } from "vite";

// The bundle is in the crate that serves it, so that a build of Quire needs no Node.
export default defineConfig({
  base: "/ui/",
  build: {
    outDir: "../crates/http/dashboard",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    assetsInlineLimit: 0,
    cssCodeSplit: false,
  },
  server: { proxy: { "/v1": "http://127.0.0.1:7070", "/healthz": "http://127.0.0.1:7070", "/readyz": "http://127.0.0.1:7070" } },
});
