"""A database behind a server: lost answers, restarts, keys, and what only a directory can do."""

import asyncio
import json
import os
import shutil
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import quire
from conftest import Server, serving


class LossyProxy:
    """Forwards requests to a server, and closes connections instead of the first `lost` answers."""

    def __init__(self, listen: str, lost: int) -> None:
        host, port = listen.split(":")
        self.upstream, self.lost, self.requests = (host, int(port)), lost, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "http://127.0.0.1:{}".format(self.listener.getsockname()[1])
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.forward, args=(client,), daemon=True).start()

    def forward(self, client: socket.socket) -> None:
        with client, socket.create_connection(self.upstream) as server:
            while request := self.whole(client):
                # The server checks by which name it is called.
                name = "{}:{}".format(*client.getsockname())
                server.sendall(request.replace(name.encode(), "{}:{}".format(*self.upstream).encode(), 1))
                answer = self.whole(server)
                self.requests += 1
                if self.lost > 0:
                    self.lost -= 1
                    return
                client.sendall(answer)

    def whole(self, source: socket.socket) -> bytes:
        """A request or an answer with its body."""
        message = b""
        while b"\r\n\r\n" not in message:
            if not (part := source.recv(65536)):
                return b""
            message += part
        head, _, body = message.partition(b"\r\n\r\n")
        length = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
        while length and len(body) < int(length[0]):
            part = source.recv(65536)
            body += part
            message += part
        return message


@contextmanager
def lossy(server: Server, lost: int) -> Iterator[LossyProxy]:
    proxy = LossyProxy(server.listen, lost)
    try:
        yield proxy
    finally:
        proxy.listener.close()


def test_a_lost_answer_is_asked_for_again_and_the_commit_counts_once(server: Server) -> None:
    with lossy(server, lost=2) as proxy, quire.connect(proxy.address) as db:
        done = db.commit(quire.Commit().append("orders", "Placed").enqueue("mails", "hello").produce("t", "x"))
        assert (proxy.lost, proxy.requests, done.is_replay) == (0, 3, False)
        assert db.store("orders").head() == 1
        assert db.topic("t").offsets() == (0, 1)
        proxy.lost = 1
        jobs = db.queue("mails").fetch("smtp")
        assert [job.text() for job in jobs] == ["hello"]
        stats = db.queue("mails").stats()
        assert stats is not None and (stats["active"], stats["pending"]) == (1, 0)
        # The first attempt of this call has committed.
        proxy.lost = 1
        again = db.commit(quire.Commit(idempotency_key="order-17").produce("t", "y"))
        assert (again.is_replay, db.topic("t").offsets()) == (True, (0, 2))


def test_a_server_that_does_not_answer_leaves_the_outcome_unknown(server: Server) -> None:
    with quire.connect(server.address, timeout=0.2) as db:
        server.kill()
        with pytest.raises(quire.Unanswered) as unanswered:
            db.store("orders").append("Placed")
        assert unanswered.value.code == "unanswered" and server.listen in str(unanswered.value)


def test_a_subscription_resumes_over_a_restart(server: Server, served: quire.Database) -> None:
    store = served.store("orders")
    store.append_all([quire.NewEvent("Placed", str(number)) for number in range(3)])
    subscription = store.subscribe(quire.Query("Placed"))
    assert [next(subscription).text() for _ in range(2)] == ["0", "1"]
    server.kill()
    server.start()
    store.append("Other")
    store.append("Placed", "3")
    assert [next(subscription).text() for _ in range(2)] == ["2", "3"]
    with pytest.raises(quire.Invalid, match="last event"):
        store.subscribe(after=99)


def test_a_subscription_continues_after_an_error(server: Server) -> None:
    with quire.connect(server.address, timeout=0.2) as db:
        store = db.store("orders")
        store.append("Placed", "1")
        subscription = store.subscribe()
        assert next(subscription).text() == "1"
        server.kill()
        with pytest.raises(quire.Unanswered):
            next(subscription)
        server.start()
        store.append("Placed", "2")
        assert next(subscription).text() == "2"


def test_a_worker_does_each_job_once_over_a_restart(server: Server, served: quire.Database) -> None:
    queue = served.queue("charges")
    for number in range(6):
        queue.enqueue(number)
    worker = queue.worker("cashier", concurrency=2)
    begun: list[int] = []

    def charge(job: quire.Job) -> quire.Commit:
        begun.append(job.json())
        if len(begun) == 3:
            server.kill()
            server.start()
        if len(begun) == 6:
            worker.stop()
        return quire.Commit().append("orders", "Charged", job.payload)

    summary = worker.run(charge)
    assert summary["completed"] == 6 and sorted(begun) == list(range(6))
    assert sorted(event.json() for event in served.store("orders").read()) == list(range(6))


def test_a_worker_retries_at_the_time_that_its_handler_returns(served: quire.Database) -> None:
    queue = served.queue("charges")
    queue.enqueue("later")
    worker = queue.worker("cashier")

    def charge(_job: quire.Job) -> quire.Fail:
        worker.stop()
        return quire.Fail("no funds", retry_in=3600)

    assert worker.run(charge)["failed"] == 1
    stats = queue.stats()
    assert stats is not None and stats["retrying"] == 1


def test_a_consumer_continues_over_a_restart(server: Server, served: quire.Database) -> None:
    topic = served.topic("orders")
    topic.create(partitions=2)
    for number in range(4):
        topic.produce(str(number), partition=number % 2)
    consumer = topic.consumer("mailer", records_max=1)
    seen = []
    for turn in range(4):
        delivery = next(consumer)
        seen += [record.text() for record in delivery]
        consumer.ack(delivery, quire.Commit().append("mails", "Sent", seen[-1]))
        if turn == 1:
            server.kill()
            server.start()
    assert sorted(text or "" for text in seen) == ["0", "1", "2", "3"]
    assert [topic.committed_offset("mailer", partition) for partition in (0, 1)] == [2, 2]
    topic.produce("4")
    consumer = topic.consumer("mailer")
    assert [record.text() for record in next(consumer)] == ["4"]
    assert consumer.next(timeout=0) is None


def test_a_key_is_required_and_comes_from_an_argument_a_file_or_the_environment(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with quire.connect(server.address) as db:
        db.store("orders").append("Placed")
    data = json.dumps({"user": "root"}).encode()
    init = urllib.request.Request(f"{server.address}/v1/access/init", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(init) as answer:
        key = json.load(answer)["key"]
    for wrong in [None, "qk_wrong"]:
        with quire.connect(server.address, key=wrong) as db, pytest.raises(quire.NotPermitted) as refused:
            db.store("orders").read()
        assert refused.value.code == "unauthenticated" and str(refused.value)
        assert refused.value.request_id is not None
    file = tmp_path / "key"
    file.write_text(f"{key}\n")
    with pytest.raises(ValueError, match="not both"):
        quire.connect(server.address, key=key, key_file=file)
    for db in [quire.connect(server.address, key=key), quire.connect(server.address, key_file=file)]:
        assert db.store("orders").head() == 1
    monkeypatch.setenv("QUIRE_KEY", key)
    assert quire.connect(server.address).store("orders").head() == 1


def test_a_unix_socket_and_tls_reach_a_server(tmp_path: Path) -> None:
    with serving(Server(tmp_path / "data", f"unix:{tmp_path}/socket")) as server:
        assert quire.connect(server.address).store("orders").append("Placed") == 1
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl makes the certificate of the test")
    certificate, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    make = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=quire"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run([openssl, *make, *names, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    tls = ["--tls-certificate", certificate, "--tls-key", key]
    with serving(Server(tmp_path / "data", "127.0.0.1:0", *tls)) as server:
        address = f"https://{server.listen.removeprefix('tls://')}"
        assert quire.connect(address, ca=certificate).store("orders").head() == 1
        with pytest.raises(quire.Unanswered, match="certificate|UnknownIssuer"):
            quire.connect(address, timeout=0.2).store("orders").head()


def test_what_only_a_directory_can_do_is_invalid(served: quire.Database) -> None:
    served.topic("orders").create()
    calls: list[Callable[[], object]] = [
        served.sync,
        lambda: served.wait_after(1),
        lambda: served.topic("orders").consumer("group", member="one"),
        lambda: served.queue("q").enqueue("x", unique=b"\xff"),
    ]
    for call in calls:
        with pytest.raises(quire.Invalid):
            call()
    for address in ["127.0.0.1:7070", "ftp://127.0.0.1"]:
        with pytest.raises(quire.Invalid, match="address"):
            quire.connect(address)
    served.close()
    with pytest.raises(quire.Failed, match="closed"):
        served.store("s").append("Placed")


def test_the_child_of_a_fork_connects_again(server: Server, served: quire.Database) -> None:
    store = served.store("s")
    store.append("Placed", "parent")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            store.append("Placed", "inherited")
        except quire.InUse:
            with quire.connect(server.address) as own:
                own.store("s").append("Placed", "child")
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert [event.text() for event in store.read()] == ["parent", "child"]


def test_long_reads_are_read_in_pages(served: quire.Database) -> None:
    store = served.store("numbers")
    for _ in range(12):
        store.append_all([quire.NewEvent("Counted", tags=["a:b"])] * 1000)
    assert [event.position for event in store.read()] == list(range(1, 12_001))
    backwards = store.read(quire.Query("Counted"), backwards=True, limit=11_000, after=500, before=11_990)
    assert [event.position for event in backwards] == list(range(11_989, 989, -1))
    assert backwards.head == 12_000


class LongRecords(BaseHTTPRequestHandler):
    """A partition with a record, and one that is too long for an answer."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        is_first = "offset=0" in self.path
        record: dict[str, object] = {"offset": 0, "timestamp_ms": 1, "key": None, "value": "YQ==", "headers": []}
        page = {
            "data": [record] if is_first else [],
            "next_cursor": None,
            "has_more": False,
            "next_offset": 2,
            "skipped": [{"offset": 1, "reason": "too_large", "bytes": 17_000_000}],
        }
        body = json.dumps(page).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged."""


def test_a_record_that_is_too_long_for_an_answer_is_an_error_after_those_before_it() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), LongRecords) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        topic = quire.connect(f"http://127.0.0.1:{server.server_port}").topic("orders")
        records = topic.read()
        assert ([record.value for record in records.records], records.next_offset) == ([b"a"], 1)
        with pytest.raises(quire.Invalid, match="offset 1 of partition 0 of \"orders\" has 17000000 bytes"):
            topic.read(offset=1)
        server.shutdown()


def client_threads() -> int:
    """The threads of this process that call servers."""
    return sum(path.read_text().strip() == "quire-client" for path in Path("/proc/self/task").glob("*/comm"))


async def test_a_cancelled_fetch_returns_its_job(served: quire.Database) -> None:
    queue = served.queue("mails")
    waiting = asyncio.ensure_future(queue._fetch_next("first", 60))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.sleep(0)
    queue.enqueue("hello")
    # The server may give the job to the call that nobody awaits, which returns it.
    fetched = await asyncio.to_thread(queue.fetch, "second", 1, wait=60)
    assert [job.text() for job in fetched] == ["hello"] and fetched[0].attempt == 1


async def test_many_calls_of_asyncio_share_threads(served: quire.Database) -> None:
    commits = [served.commit_async(quire.Commit().append("orders", "Placed")) for _ in range(100)]
    assert sorted(done.position for done in await asyncio.gather(*commits)) == list(range(1, 101))
    assert client_threads() <= 80
