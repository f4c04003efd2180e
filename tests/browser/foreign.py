"""Pages of other sites neither read from a server nor write to it, in headless Chromium.

Starts `quire serve`, and serves a page under another origin. The page tries everything that a page can send without being
asked: fetch with and without CORS, forms, EventSource, WebSocket, images and scripts, sendBeacon. Afterwards the server
has nothing of it. The same page is then allowed by `--http-allow-origin`, and reads and writes: the attempts are real.
At last, a name that an attacker points at this machine is refused (DNS rebinding).
"""

import argparse
import http.server
import json
import pathlib
import queue
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request

# A name without a real address, which the browser is told to look up as this machine.
SITE = "app.example"
PATIENCE_S = 120

PAGE = """<!doctype html>
<title>A page of another site</title>
<iframe name="hidden"></iframe>
<script>
const server = "http://127.0.0.1:%(port)d";
const commit = (store) => JSON.stringify({parts: [{append: {store, events: [{type: "Forged"}]}}]});
const results = {};

async function read(name, path, options) {
  try {
    const response = await fetch(server + path, options);
    results[name] = response.type === "opaque" ? "opaque" : await response.text();
  } catch (error) {
    results[name] = "blocked";
  }
}

function element(name, tag, attributes) {
  return new Promise((done) => {
    const made = Object.assign(document.createElement(tag), attributes);
    made.onload = () => { results[name] = "loaded"; done(); };
    made.onerror = () => { results[name] = "blocked"; done(); };
    document.body.append(made);
  });
}

async function form(name, enctype, field) {
  const made = document.createElement("form");
  Object.assign(made, {method: "POST", action: server + "/v1/commit", enctype, target: "hidden"});
  const input = document.createElement("input");
  // As text/plain, the name and the value of a field are JSON together.
  Object.assign(input, {name: field[0], value: field[1]});
  made.append(input);
  document.body.append(made);
  const frame = document.querySelector("iframe");
  const loaded = new Promise((done) => { frame.onload = done; });
  made.submit();
  await loaded;
  results[name] = "sent";
}

function stream(name) {
  return new Promise((done) => {
    const source = new EventSource(server + "/v1/jobs/subscribe");
    source.onopen = () => { results[name] = "open"; source.close(); done(); };
    source.onerror = () => { results[name] = "blocked"; source.close(); done(); };
  });
}

function socket(name) {
  return new Promise((done) => {
    const made = new WebSocket(server.replace("http", "ws") + "/v1/jobs/subscribe");
    made.onopen = () => { results[name] = "open"; done(); };
    made.onerror = () => { results[name] = "blocked"; done(); };
  });
}

async function attack() {
  const json = {"content-type": "application/json"};
  await read("read", "/v1/events");
  await read("json", "/v1/commit", {method: "POST", headers: json, body: commit("json")});
  for (const mode of ["cors", "no-cors"]) {
    for (const kind of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]) {
      const store = mode + "/" + kind.replaceAll("/", "-");
      await read(store, "/v1/commit", {method: "POST", mode, headers: {"content-type": kind}, body: commit(store)});
    }
  }
  await read("untyped", "/v1/commit", {method: "POST", mode: "no-cors", body: new Blob([commit("untyped")])});
  await read("compact", "/v1/compact", {method: "POST", mode: "no-cors"});
  await read("delete", "/v1/queues/q", {method: "DELETE"});
  const [before, after] = commit("form").split("Forged");
  await form("form-text", "text/plain", [before + "Forged", after]);
  await form("form-url", "application/x-www-form-urlencoded", ["parts", commit("form-url")]);
  await form("form-multipart", "multipart/form-data", ["parts", commit("form-multipart")]);
  navigator.sendBeacon(server + "/v1/commit", commit("beacon"));
  navigator.sendBeacon(server + "/v1/commit", new Blob([commit("beacon-plain")], {type: "text/plain"}));
  await stream("stream");
  await socket("socket");
  await element("script", "script", {src: server + "/v1/events"});
  await element("image", "img", {src: server + "/healthz"});
  await fetch("/results", {method: "POST", body: JSON.stringify(results)});
}
attack();
</script>
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """The server process, on a directory of its own. It has a queue with a job, and a store with an event."""

    def __init__(self, quire, directory):
        self.port = free_port()
        self.arguments = [quire, "serve", "--data", directory, "--durability", "os"]
        self.arguments += ["--http", f"127.0.0.1:{self.port}", "--kafka", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]

    def __enter__(self):
        self.process = subprocess.Popen(self.arguments, stdout=subprocess.DEVNULL)
        self.wait()
        parts = [{"enqueue": {"queue": "q"}}, {"append": {"store": "mine", "events": [{"type": "Kept"}]}}]
        self.call("/v1/commit", {"parts": parts})
        return self

    def wait(self):
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert self.process.poll() is None and time.monotonic() < until, "the server does not start"
                time.sleep(0.02)

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def call(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data)
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request) as response:
            return json.load(response)

    def stores(self):
        return sorted(store["store"] for store in self.call("/v1/events")["data"])


class Site:
    """A web server of another site, which serves the page and collects its results."""

    def __init__(self, port):
        results = self.results = queue.Queue()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                page = (PAGE % {"port": port}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(page)))
                self.end_headers()
                self.wfile.write(page)

            def do_POST(self):
                results.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class Browser:
    """A headless Chromium on one page."""

    def __init__(self, chromium, url):
        # Chromium's other processes outlive the first, and write into the profile while it is deleted.
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.arguments = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
        self.arguments += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
        self.arguments += [f"--user-data-dir={self.profile.name}", f"--host-resolver-rules=MAP {SITE} 127.0.0.1"]
        self.url = url

    def __enter__(self):
        # It stays open until it is ended.
        arguments = [*self.arguments, "--remote-debugging-port=0", self.url]
        self.process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.profile.cleanup()

    def text(self):
        """The page's text, once it is loaded."""
        dumped = subprocess.run([*self.arguments, "--dump-dom", self.url], capture_output=True, text=True, check=True,
                                timeout=PATIENCE_S)
        self.profile.cleanup()
        return dumped.stdout


def visit(chromium, site):
    with Browser(chromium, f"http://{SITE}:{site.port}/"):
        results = site.results.get(timeout=PATIENCE_S)
    print(json.dumps(results, indent=1))
    assert len(results) == 18, len(results)
    return results


def attacked(quire, chromium, directory):
    """A page of a site that is not allowed reads nothing, and changes nothing."""
    with Server(quire, directory / "attacked") as server:
        for name, result in visit(chromium, Site(server.port)).items():
            # The browser sends these, and keeps the response from the page.
            is_opaque = name.startswith("no-cors") or name in ("untyped", "compact")
            expected = "sent" if name.startswith("form") else "opaque" if is_opaque else "blocked"
            assert result == expected, f"{name}: {result}"
        assert server.stores() == ["mine"], server.stores()
        assert server.call("/v1/queues/q")["pending"] == 1
        assert server.call("/v1/stats")["commits"] == 1
    print("a page of another site read and wrote nothing")


def allowed(quire, chromium, directory):
    """A page of an allowed site reads, and writes JSON. So the attempts reach a server that does not refuse them."""
    server = Server(quire, directory / "allowed")
    site = Site(server.port)
    server.arguments += ["--http-allow-origin", f"http://{SITE}:{site.port}"]
    with server:
        results = visit(chromium, site)
        assert "mine" in results["read"], results["read"]
        assert "replies" in results["json"], results["json"]
        assert results["stream"] == "open", results["stream"]
        assert results["delete"] != "blocked", results["delete"]
        for kind in ("text-plain", "application-x-www-form-urlencoded", "multipart-form-data"):
            assert "unsupported_media_type" in results[f"cors/{kind}"], results[f"cors/{kind}"]
        assert server.stores() == ["json", "mine"], server.stores()
    print("a page of an allowed site read and wrote JSON")


def rebound(quire, chromium, directory):
    """A page under a name that the attacker points at this machine is of the same origin. It gets nothing."""
    with Server(quire, directory / "rebound") as server:
        own = Browser(chromium, f"http://127.0.0.1:{server.port}/v1/events").text()
        assert "mine" in own, own
        text = Browser(chromium, f"http://{SITE}:{server.port}/v1/events").text()
        assert "unknown_host" in text and "mine" not in text, text
    print("a name that was pointed at the server got nothing")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("quire", type=pathlib.Path)
    parser.add_argument("chromium")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        for check in (attacked, allowed, rebound):
            check(arguments.quire, arguments.chromium, pathlib.Path(directory))


if __name__ == "__main__":
    main()
