"""Attacks on a running server: the server lives, others are served, and refusals name their reason.

Starts `quire serve` with 1,024 file handles. Another client commits meanwhile; its latencies are printed and not
asserted, because a busy machine changes them. Each attack runs in a process of its own. Attacks on memory are tests of
`crates/cli`.
"""

import argparse
import http.client
import json
import multiprocessing
import os
import pathlib
import resource
import socket
import struct
import subprocess
import tempfile
import threading
import time

HANDLES = 1024
PATIENCE_S = 120
# How long an attack lasts that could go on for ever.
SECONDS = 5
# Connections of the attacks that open many. The limits of the server are below its handles.
MANY = 1200
JSON = {"Content-Type": "application/json"}


def free_ports(count):
    listeners = [socket.socket() for _ in range(count)]
    for listener in listeners:
        listener.bind(("127.0.0.1", 0))
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


class Server:
    """The server process, on a directory of its own."""

    def __init__(self, quire, directory, *flags):
        self.http, self.grpc, self.kafka = free_ports(3)
        self.directory = directory
        self.arguments = [quire, "serve", "--data", str(directory), "--durability", "os", *flags]
        for name in ("http", "grpc", "kafka"):
            self.arguments += [f"--{name}", f"127.0.0.1:{getattr(self, name)}"]

    def __enter__(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (HANDLES, HANDLES))
        self.process = subprocess.Popen(self.arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        preexec_fn=limit)
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.http), 1).close()
                return self
            except OSError:
                assert self.process.poll() is None and time.monotonic() < until, "the server does not start"
                time.sleep(0.02)

    def __exit__(self, *_):
        assert self.process.poll() is None, f"the server ended: {self.process.returncode}"
        self.process.terminate()
        assert self.process.wait(PATIENCE_S) == 0, "the server did not stop as it was asked to"

    def ask(self, method, path, body=None, connection=None):
        """The status and the JSON of a request."""
        kept = connection or http.client.HTTPConnection("127.0.0.1", self.http, timeout=PATIENCE_S)
        try:
            data = None if body is None else json.dumps(body)
            kept.request(method, path, data, {} if data is None else JSON)
            response = kept.getresponse()
            text = response.read()
            return response.status, json.loads(text) if text.startswith(b"{") else text
        finally:
            if connection is None:
                kept.close()

    def commit(self, *parts, connection=None):
        return self.ask("POST", "/v1/commit", {"parts": list(parts)}, connection)

    def resident_mib(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024


class Committer(threading.Thread):
    """Another client, which commits one job after the other on one connection."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.times, self.problem, self.is_over = server, [], None, threading.Event()

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.http, timeout=PATIENCE_S)
        try:
            while not self.is_over.is_set():
                begun = time.perf_counter()
                status, answer = self.server.commit({"enqueue": {"queue": "mails", "payload": 1}}, connection=connection)
                self.times.append(time.perf_counter() - begun)
                if status != 200:
                    raise AssertionError(f"another client was refused: {status} {answer}")
                time.sleep(0.001)
        except Exception as problem:
            self.problem = problem

    def end(self):
        self.is_over.set()
        self.join(PATIENCE_S)
        if self.problem:
            raise self.problem
        assert self.times and not self.is_alive(), "another client was not served"
        times = sorted(self.times)
        at = lambda part: 1000 * times[min(len(times) - 1, int(len(times) * part))]
        return f"{len(times):6} commits, p50 {at(0.5):7.2f} ms, p99 {at(0.99):8.2f} ms, longest {1000 * times[-1]:8.2f} ms"


def report(name, what):
    print(f"{name:28} {what}   load {os.getloadavg()[0]:.1f}", flush=True)


def attack(name, server, run, *arguments):
    """Runs an attack beside another client. Returns what the attack returns."""
    answers = multiprocessing.Queue()
    def work():
        try:
            answers.put((run(server, *arguments), None))
        except BaseException as problem:
            answers.put((None, f"{type(problem).__name__}: {problem}"))
    process = multiprocessing.Process(target=work)
    committer = Committer(server)
    committer.start()
    process.start()
    answer, problem = answers.get(timeout=PATIENCE_S)
    process.join(PATIENCE_S)
    assert problem is None, f"{name}: {problem}"
    report(name, f"{committer.end()}, {server.resident_mib():5.0f} MiB")
    status, health = server.ask("GET", "/healthz")
    assert status == 200, f"{name}: {status} {health}"
    return answer


def again_and_again(server, ask):
    """What `ask` returns last, after it was called for some seconds."""
    until, answer = time.monotonic() + SECONDS, None
    while time.monotonic() < until:
        answer = ask(server)
    return answer


# The Kafka protocol, as far as the attacks need it.

def text(value):
    return struct.pack(">h", len(value)) + value.encode()


def array(items):
    return struct.pack(">i", len(items)) + b"".join(items)


def kafka(server, api, version, body, timeout=PATIENCE_S):
    """The body of a response; `None` when the server closes the connection instead."""
    with socket.create_connection(("127.0.0.1", server.kafka), timeout) as stream:
        frame = struct.pack(">hhi", api, version, 7) + text("attacker") + body
        stream.sendall(struct.pack(">i", len(frame)) + frame)
        return kafka_response(stream)


def kafka_response(stream):
    def read(count):
        data = b""
        while len(data) < count:
            more = stream.recv(count - len(data))
            if not more:
                return None
            data += more
        return data
    head = read(4)
    return None if head is None else read(struct.unpack(">i", head)[0])[4:]


class Reader:
    """Reads the fields of a response."""

    def __init__(self, body):
        self.body, self.place = body, 0

    def skip(self, size):
        self.place += size

    def number(self, form):
        value = struct.unpack_from(form, self.body, self.place)[0]
        self.skip(struct.calcsize(form))
        return value

    def skip_text(self):
        length = self.number(">h")
        self.skip(max(0, length))


def metadata_errors(body):
    """The numbers of topics by their error codes, of a response of version 4."""
    reader, errors = Reader(body), {}
    reader.skip(4)
    for _ in range(reader.number(">i")):
        reader.skip(4)
        reader.skip_text()
        reader.skip(4)
        reader.skip_text()
    reader.skip_text()
    reader.skip(4)
    for _ in range(reader.number(">i")):
        code = reader.number(">h")
        errors[code] = errors.get(code, 0) + 1
        reader.skip_text()
        reader.skip(1)
        for _ in range(reader.number(">i")):
            reader.skip(2 + 4 + 4)
            for _ in ("replicas", "in sync"):
                count = reader.number(">i")
                reader.skip(4 * count)
    return errors


# The attacks. The numbers are those of the review of security.

def reads_without_a_match(server):
    """7: walks along two tags without a common event, for ever."""
    return again_and_again(server, lambda server: server.ask("GET", "/v1/events/numbers?tag=odd&tag=even"))


def costly_conditions(server):
    """7: an append of some kilobytes, with 200 conditions that walk the whole store each."""
    item = {"fail_if_events_match": {"items": [{"tags": ["odd", "even"]}] * 4}}
    body = {"events": [{"type": "Counted"}], "conditions": [item] * 200}
    return again_and_again(server, lambda server: server.ask("POST", "/v1/events/numbers/append", body))


def leaves_walks_behind(server):
    """7: walks whose client leaves at once."""
    head = f"GET /v1/events/numbers?tag=odd&tag=even HTTP/1.1\r\nHost: 127.0.0.1:{server.http}\r\n\r\n".encode()
    until, count = time.monotonic() + SECONDS, 0
    while time.monotonic() < until:
        with socket.create_connection(("127.0.0.1", server.http), PATIENCE_S) as stream:
            stream.sendall(head)
        count += 1
    return count


def imports_bombs(server):
    """6: files of GraphML that ask for more than their bytes. Returns the status of each."""
    named = lambda count, item: "".join(item(number) for number in range(count))
    nodes = named(3000, lambda number: f"<node id='{number}'/>")
    keys = named(3000, lambda number: f"<key id='k{number}' for='node' attr.name='n{number}'><default>d</default></key>")
    default = f"<key id='k' for='node'><default>{'x' * 1_000_000}</default></key>"
    files = {
        "attributes": "<graphml" + named(200_000, lambda number: f" a{number}=''") + "/>",
        "keys": f"<graphml>{keys}<graph>{nodes}</graph></graphml>",
        "a default": f"<graphml>{default}<graph>{nodes}</graph></graphml>",
        "depth": "<graphml>" + "<graph>" * 500_000,
    }
    statuses = {}
    for name, file in files.items():
        connection = http.client.HTTPConnection("127.0.0.1", server.http, timeout=PATIENCE_S)
        connection.request("POST", "/v1/graphs/g/import?format=graphml&batches=true", file, JSON)
        statuses[name] = connection.getresponse().status
        connection.close()
    return statuses


def deletes_read_topics(server):
    """Deletions of topics of 5,000 partitions that 4 groups have read."""
    def round_of(number):
        topic = f"read-{number}"
        status, answer = server.commit({"create_topic": {"name": topic, "partitions": 5_000}})
        check("a topic", (status, answer.get("code")), (200, None))
        of = lambda partition: struct.pack(">iq", partition, 0) + text("")
        for group in range(4):
            body = text(f"group-{group}") + struct.pack(">i", -1) + text("") + struct.pack(">q", -1)
            body += array([text(topic) + array([of(partition) for partition in range(5_000)])])
            check("offsets", kafka(server, 8, 2, body)[-2:], b"\0\0")
        status, answer = server.commit({"delete_topic": {"topic": topic}})
        check("a deletion", (status, answer.get("code")), (200, None))
        status, answer = server.ask("GET", "/v1/groups")
        # Nothing of the topic is left to read.
        check("offsets of the groups", (status, {group["partitions"] for group in answer["data"]}), (200, {0}))
        return number + 1
    until, number = time.monotonic() + SECONDS, 0
    while time.monotonic() < until:
        number = round_of(number)
    return number


def creates_by_reading(server):
    """8: one metadata request that names 60,000 new topics, again and again."""
    names = [text(f"made-{number}") for number in range(60_000)]
    return again_and_again(server, lambda server: metadata_errors(kafka(server, 3, 4, array(names) + b"\x01")))


def commits_offsets(server):
    """9: offsets with notes of 4 KiB, and groups without number."""
    codes = {}
    for number in range(3000):
        of = lambda partition: struct.pack(">iq", partition, 1) + text("n" * 4000)
        body = text(f"group-{number}") + struct.pack(">i", -1) + text("") + struct.pack(">q", -1)
        body += array([text("wide") + array([of(partition) for partition in range(30)])])
        answer = kafka(server, 8, 2, body)
        if answer is None:
            return "closed"
        code = struct.unpack(">h", answer[-2:])[0]
        codes[code] = codes.get(code, 0) + 1
        if code != 0:
            break
    return codes


def is_silent(server, ports):
    """10, 11: connections that send nothing, as many as the server takes."""
    # A client that was there before is served on.
    kept = http.client.HTTPConnection("127.0.0.1", server.http, timeout=PATIENCE_S)
    kept.connect()
    server.ask("GET", "/livez", connection=kept)
    streams = []
    for _ in range(MANY):
        for port in ports:
            try:
                streams.append(socket.create_connection(("127.0.0.1", port), 1))
            except OSError:
                pass
    begun = time.monotonic()
    answer = server.ask("GET", "/healthz")[0]
    parts = [{"append": {"store": "large", "events": [{"type": "Large", "data": "x" * 100_000}]}}] * 4
    # Segments are begun meanwhile, which takes handles.
    while time.monotonic() < begun + SECONDS:
        status, refused = server.commit(*parts, connection=kept)
        assert status == 200, f"a commit among silent connections: {status} {refused}"
    for stream in streams:
        stream.close()
    return answer


def reads_slowly(server):
    """13: readers of pages and subscribers that never read, while a worker takes jobs."""
    host = f"Host: 127.0.0.1:{server.http}\r\n"
    page = f"GET /v1/events/large?limit=1000 HTTP/1.1\r\n{host}\r\n"
    follow = f"GET /v1/events/large/subscribe?after=0 HTTP/1.1\r\n{host}\r\n"
    # A worker that was there before is served on.
    connection = http.client.HTTPConnection("127.0.0.1", server.http, timeout=PATIENCE_S)
    connection.connect()
    server.ask("GET", "/livez", connection=connection)
    streams = []
    for request in [page] * 80 + [follow] * 80:
        stream = socket.socket()
        # So little that the server holds what it has to say.
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        try:
            stream.connect(("127.0.0.1", server.http))
            stream.sendall(request.encode())
        except OSError:
            pass
        streams.append(stream)
    until, taken = time.monotonic() + SECONDS, 0
    while time.monotonic() < until:
        fetch = {"worker": "w", "count": 10, "wait_ms": 100}
        status, answer = server.ask("POST", "/v1/queues/mails/fetch", fetch, connection)
        assert status == 200, f"a fetch beside slow readers: {status} {answer}"
        for job in answer["jobs"]:
            status, said = server.ask("POST", f"/v1/jobs/{job['job']}/ack", {"token": job["token"]}, connection)
            assert status == 200, f"an ack beside slow readers: {status} {said}"
            taken += 1
    for stream in streams:
        stream.close()
    return taken


def sends_half_heads(server):
    """S3: heads of requests that do not end, of 380 kB each."""
    head = f"GET /v1/stats HTTP/1.1\r\nHost: 127.0.0.1:{server.http}\r\n".encode()
    streams = []
    for _ in range(200):
        stream = socket.create_connection(("127.0.0.1", server.http), PATIENCE_S)
        stream.settimeout(1)
        try:
            stream.sendall(head + b"X-Long: " + b"y" * 380_000)
        except OSError:
            pass
        streams.append(stream)
    answers = set()
    for stream in streams:
        try:
            answers.add(stream.recv(100).split(b"\r\n")[0].decode())
        except OSError:
            answers.add("none yet")
        stream.close()
    return sorted(answers)


def raw(server, request):
    """The status of a request that no client library sends."""
    with socket.create_connection(("127.0.0.1", server.http), PATIENCE_S) as stream:
        stream.sendall(request.encode())
        return int(stream.recv(4096).split(b" ")[1])


def check(what, found, expected):
    assert found == expected, f"{what}: {found!r}, expected {expected!r}"


def refused_by_name(server):
    """14, 15 and S3: forged names, poison jobs, and hosts."""
    status, answer = server.commit({"append": {"store": "pay/orders", "events": [{"type": "Paid"}]}})
    check("a store", status, 200)
    status, answer = server.commit({"produce": {"topic": "pay.orders", "value": "forged"}})
    check("a topic with the name of a store", (status, answer["code"], answer["kind"]), (409, "name_taken", "event store"))
    check("the store is named", answer["name"], "pay/orders")
    for field in ("kind", "group"):
        status, answer = server.commit({"enqueue": {"queue": "poison", field: "a\0b"}})
        check(f"a {field} with a zero byte", (status, answer["code"]), (400, "invalid_name"))
    for name in ("a\nb", ""):
        status, answer = server.commit({"enqueue": {"queue": name}})
        check(f"a queue {name!r}", (status, answer["code"]), (400, "invalid_name"))
    host = f"Host: 127.0.0.1:{server.http}\r\n"
    check("two hosts", raw(server, f"GET /v1/stats HTTP/1.1\r\n{host}{host}\r\n"), 400)
    check("no host", raw(server, "GET /v1/stats HTTP/1.1\r\n\r\n"), 400)
    check("another host", raw(server, "GET /v1/stats HTTP/1.1\r\nHost: a.example\r\n\r\n"), 421)
    check("another origin", raw(server, f"GET /v1/stats HTTP/1.1\r\n{host}Origin: http://a.example\r\n\r\n"), 403)
    status, health = server.ask("GET", "/healthz")
    assert str(server.directory) not in json.dumps(health), f"health tells the directory: {health}"


def fill(server):
    """300,000 events, half of them with one tag and half with another."""
    events = [{"type": "Counted", "tags": [("even", "odd")[number % 2]]} for number in range(20_000)]
    for _ in range(15):
        status, answer = server.commit({"append": {"store": "numbers", "events": events}})
        check("a commit of events", (status, answer.get("code")), (200, None))


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("quire", help="the program")
    quire = arguments.parse_args().quire
    multiprocessing.set_start_method("fork")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard != resource.RLIM_INFINITY else 1 << 16, hard))
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        with Server(quire, directory / "steps") as server:
            fill(server)
            attack("nothing", server, lambda _: time.sleep(SECONDS))
            status, answer = attack("7 reads without a match", server, reads_without_a_match)
            check("a read without a match", status in (200, 422), True)
            if status == 422:
                check("it names where to continue", answer["code"] == "too_costly" and answer["after"] > 0, True)
            status, answer = attack("7 costly conditions", server, costly_conditions)
            check("conditions of 200 walks", (status, answer["code"]), (422, "too_costly"))
            assert isinstance(answer["condition"], int) and answer["most"] > 0, answer
            attack("7 walks left behind", server, leaves_walks_behind)
        with Server(quire, directory / "imports") as server:
            statuses = attack("6 bombs of GraphML", server, imports_bombs)
            check("bombs", statuses, {"attributes": 400, "keys": 400, "a default": 413, "depth": 400})
        with Server(quire, directory / "deletions") as server:
            assert attack("deletions of read topics", server, deletes_read_topics) > 0
        with Server(quire, directory / "names") as server:
            errors = attack("8 topics by metadata", server, creates_by_reading)
            assert errors.get(89, 0) > 59_000, f"THROTTLING_QUOTA_EXCEEDED for most topics: {errors}"
            topics = server.ask("GET", "/v1/topics")[1]["data"]
            assert len(topics) < 1_000, f"{len(topics)} topics"
        with Server(quire, directory / "offsets", "--offset-bytes-max", "50000000") as server:
            status, answer = server.commit({"create_topic": {"name": "wide", "partitions": 30}})
            check("a wide topic", (status, answer.get("code")), (200, None))
            codes = attack("9 offsets with notes", server, commits_offsets)
            check("offsets beyond their bound are refused (POLICY_VIOLATION)", codes.get(44), 1)
        # A small limit of one address, and one that is as large as the limit of all.
        for flags in ([], ["--connections-per-address-max", "100000"]):
            with Server(quire, directory / f"silent-{len(flags)}", "--segment-bytes", "1048576", *flags) as server:
                ports = [server.grpc, server.http, server.kafka]
                check("health", attack("10, 11 silent connections", server, is_silent, ports), 200)
        with Server(quire, directory / "slow", "--memory", "160MiB") as server:
            event = {"type": "Large", "data": "x" * 100_000}
            for _ in range(20):
                status, answer = server.commit({"append": {"store": "large", "events": [event] * 10}})
                check("a commit of large events", (status, answer.get("code")), (200, None))
            taken = attack("13 slow readers", server, reads_slowly)
            assert taken > 0, "a worker got no job beside slow readers"
        with Server(quire, directory / "heads") as server:
            print("heads of 380 kB without an end:", attack("S3 half heads", server, sends_half_heads))
            refused_by_name(server)
    print("every attack: the server lived, others were served, and refusals named their reason")


if __name__ == "__main__":
    main()
