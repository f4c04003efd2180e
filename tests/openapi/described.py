"""Random requests from the description of the HTTP API, against a server.

schemathesis makes requests that agree with `/openapi.json`, and requests that do not. No response may be an error of the
server, have an undocumented status or type, or differ from its schema.
"""

import argparse
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

PATIENCE_S = 120
SECONDS = 60
SEED = 1
# A long poll is as short as it may be described.
WAIT_MS = 20
CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def read(url):
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            with urllib.request.urlopen(url) as response:
                return json.load(response)
        except OSError:
            assert time.monotonic() < until, "the server does not start"
            time.sleep(0.05)


def shorten(value):
    """Lowers the maximum of every `wait_ms`, so that no request waits."""
    if isinstance(value, dict):
        if value.get("name") == "wait_ms":
            value["schema"]["maximum"] = WAIT_MS
        if "wait_ms" in value and isinstance(value["wait_ms"], dict):
            value["wait_ms"]["maximum"] = WAIT_MS
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            shorten(item)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("quire", type=pathlib.Path)
    parser.add_argument("schemathesis", type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        ports = {name: free_port() for name in ("http", "grpc", "kafka")}
        serve = [arguments.quire, "serve", "--data", directory / "data", "--durability", "os"]
        for name, port in ports.items():
            serve += [f"--{name}", f"127.0.0.1:{port}"]
        server = subprocess.Popen(serve, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            url = f"http://127.0.0.1:{ports['http']}"
            description = read(f"{url}/openapi.json")
            shorten(description)
            # Streams do not end, and a backup is large.
            streams = [path for path in description["paths"] if path.endswith("/subscribe") or path == "/v1/backup"]
            for path in streams:
                del description["paths"][path]
            file = directory / "openapi.json"
            file.write_text(json.dumps(description))
            run = [arguments.schemathesis, "run", file, "--url", url, "--phases", "coverage,fuzzing", "--seed", SEED,
                   "--max-time", SECONDS, "--max-examples", 20, "--checks", ",".join(CHECKS), "--warnings", "off",
                   "--no-shrink", "--request-timeout", 30, "--continue-on-failure",
                   "--suppress-health-check", "all"]
            status = subprocess.run([str(argument) for argument in run], cwd=directory).returncode
            assert server.poll() is None, f"the server ended: {server.returncode}"
        finally:
            server.terminate()
            server.wait(PATIENCE_S)
    sys.exit(status)


if __name__ == "__main__":
    main()
