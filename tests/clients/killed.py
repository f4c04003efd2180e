"""Kills a server again and again under clients that repeat each unanswered request by its idempotency key.

Usage: killed.py QUIRE [KILLS]

Each client commits an event, a job, a message and a block in one commit, and works jobs with an acknowledgement and an
event in one commit. It gets no answer when the server dies, and sends the request again until it has one. In the end
each effect must be there exactly once, and a copy of each commit must get the first answer.
"""

import http.client
import json
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid

WRITERS = 6
WORKERS = 3


class Server:
    """A server on one port, which is killed and started again on the same database."""

    def __init__(self, quire, folder):
        self.command = [quire, "serve", "--data", f"{folder}/data", "--durability", "os", "--grpc", "127.0.0.1:0",
                        "--kafka", "127.0.0.1:0"]
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.process = None

    def start(self):
        command = [*self.command, "--http", f"127.0.0.1:{self.port}"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in self.process.stdout:
            if line.startswith("serving"):
                return
        raise RuntimeError(f"the server ended with {self.process.wait()}")

    def kill(self):
        self.process.kill()
        self.process.wait()


class Client:
    """A connection that is opened again when it breaks."""

    def __init__(self, port):
        self.port = port
        self.connection = None
        self.unanswered = 0

    def ask(self, method, path, body=None, key=None):
        """Sends a request until it is answered. Returns the status, the headers and the body."""
        headers = {"Content-Type": "application/json"} if body is not None else {}
        headers |= {"Idempotency-Key": key} if key else {}
        payload = None if body is None else json.dumps(body)
        while True:
            sent = False
            try:
                self.connection = self.connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
                self.connection.request(method, path, payload, headers)
                sent = True
                response = self.connection.getresponse()
                answer = json.loads(response.read())
                if response.status not in (429, 503):
                    return response.status, response.headers, answer
            except (OSError, http.client.HTTPException, ValueError):
                self.connection.close()
                self.connection = None
                self.unanswered += sent
            time.sleep(0.005)


def write(client, name, stop, written):
    """Commits until it is stopped; each commit has a name of its own."""
    number = 0
    while not stop.is_set():
        number += 1
        commit, key = f"{name}-{number}", str(uuid.uuid4())
        parts = [
            {"append": {"store": "kills/events", "events": [{"type": "Written", "tags": [f"commit:{commit}"]}]}},
            {"enqueue": {"queue": "kills/jobs", "payload": commit}},
            {"produce": {"topic": "kills", "value": commit}},
            {"put_block": {"graph": "kills", "block": commit, "kind": "commit"}},
        ]
        status, _, answer = client.ask("POST", "/v1/commit", {"parts": parts}, key)
        assert status == 200, answer
        written[commit] = (key, parts, answer)


def work(client, stop, done):
    """Works jobs; stops when it is told to and the queue is empty."""
    while True:
        is_last = stop.is_set()
        fetch = {"count": 8, "worker": "w", "lease_ms": 86_400_000, "wait_ms": 0 if is_last else 50}
        status, _, answer = client.ask("POST", "/v1/queues/kills%2Fjobs/fetch", fetch, str(uuid.uuid4()))
        assert status == 200, answer
        for job in answer["jobs"]:
            parts = [
                {"ack": {"job": job["job"], "token": job["token"]}},
                {"append": {"store": "kills/events", "events": [{"type": "Worked", "tags": [f"commit:{job['payload']}"]}]}},
            ]
            status, _, reply = client.ask("POST", "/v1/commit", {"parts": parts}, str(uuid.uuid4()))
            assert status == 200, reply
            done.append(job["payload"])
        if is_last and not answer["jobs"]:
            return


def pages(client, path):
    """All items of a list."""
    items, cursor = [], None
    while True:
        separator = "&" if "?" in path else "?"
        more = "" if cursor is None else f"&cursor={cursor}"
        status, _, page = client.ask("GET", f"{path}{separator}limit=1000{more}")
        assert status == 200, page
        items += page["data"]
        cursor = page["next_cursor"]
        if cursor is None:
            return items


def same(found, expected, what):
    """Compares two lists without their order."""
    found, expected = sorted(found), sorted(expected)
    if found != expected:
        twice = sorted({one for one in found if found.count(one) > 1})
        lost = sorted(set(expected) - set(found))
        raise AssertionError(f"{what}: {len(found)} instead of {len(expected)}; lost {lost[:5]}, doubled {twice[:5]}")


def main():
    quire, kills = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20
    written, done, failures = {}, [], []
    stop_writing, stop_working = threading.Event(), threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        server = Server(quire, folder)
        server.start()
        clients = [Client(server.port) for _ in range(WRITERS + WORKERS)]

        def guarded(run, *arguments):
            try:
                run(*arguments)
            except BaseException as error:
                failures.append(error)
                stop_writing.set()
                stop_working.set()

        def thread(run, *arguments):
            thread = threading.Thread(target=guarded, args=(run, *arguments))
            thread.start()
            return thread

        writers = [thread(write, clients[n], f"w{n}", stop_writing, written) for n in range(WRITERS)]
        workers = [thread(work, client, stop_working, done) for client in clients[WRITERS:]]
        for _ in range(kills):
            time.sleep(random.uniform(0.02, 0.3))
            if failures:
                break
            server.kill()
            server.start()
        stop_writing.set()
        for writer in writers:
            writer.join()
        stop_working.set()
        for worker in workers:
            worker.join()
        try:
            if failures:
                raise failures[0]
            check(Client(server.port), written, done)
        finally:
            server.kill()
    unanswered = sum(client.unanswered for client in clients)
    assert unanswered >= kills, f"only {unanswered} requests were cut off"
    print(f"{kills} kills, {len(written)} commits, {len(done)} jobs, {unanswered} requests cut off: each effect once")


def check(client, written, done):
    events = pages(client, "/v1/events/kills%2Fevents")
    commits = {kind: [event["tags"][0].split(":", 1)[1] for event in events if event["type"] == kind]
               for kind in ("Written", "Worked")}
    same(commits["Written"], written, "events of the writers")
    same(commits["Worked"], written, "events of the workers")
    same(done, written, "worked jobs")
    same([record["value"] for record in pages(client, "/v1/topics/kills/partitions/0/records?as=json")], written, "messages")
    same([block["name"] for block in pages(client, "/v1/graphs/kills/blocks")], written, "blocks")
    status, _, queue = client.ask("GET", "/v1/queues/kills%2Fjobs")
    assert status == 200 and queue["completed"] == len(written), queue
    for key, parts, first in random.sample(sorted(written.values(), key=str), min(200, len(written))):
        status, headers, answer = client.ask("POST", "/v1/commit", {"parts": parts}, key)
        assert (status, answer, headers["Idempotent-Replay"]) == (200, first, "true"), (answer, first)


if __name__ == "__main__":
    main()
