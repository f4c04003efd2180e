import { defineConfig } from "vite";

/** A server, by default the one of this machine. It accepts requests of its own pages only. */
const proxied = {
  target: process.env.QUIRE_HTTP ?? "http://127.0.0.1:7070",
  changeOrigin: true,
  configure: (proxy) => proxy.on("proxyReq", (request) => request.removeHeader("origin")),
};

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
  server: { proxy: Object.fromEntries(["/v1", "/healthz", "/readyz", "/ui/session", "/ui/login"].map((route) => [route, proxied])) },
});
