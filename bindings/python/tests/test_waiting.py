"""Threads, workers, asyncio and Ctrl-C."""

import asyncio
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

import quire


def test_threads_share_handles(db: quire.Database) -> None:
    store = db.store("numbers")

    def append() -> None:
        for _ in range(500):
            store.append("Counted")

    threads = [threading.Thread(target=append) for _ in range(4)]
    for thread in threads:
        thread.start()
    subscription = store.subscribe()
    positions = [next(subscription).position for _ in range(2000)]
    for thread in threads:
        thread.join()
    assert positions == list(range(1, 2001))


def test_a_worker_keeps_its_lease_and_reports_every_outcome(db: quire.Database) -> None:
    queue = db.queue("charges")
    for payload in ["commit", "value", "fail", "raise", "snooze"]:
        queue.enqueue(payload)
    errors: list[tuple[str, str]] = []
    worker = queue.worker(
        "cashier", concurrency=2, lease=0.3, on_error=lambda job, error: errors.append((job.text(), str(error)))
    )
    seen: list[str] = []
    lost = threading.Event()

    def charge(job: quire.Job) -> Any:
        seen.append(job.text())
        match job.text():
            case "commit":
                # Three leases long: without heartbeats the job is fetched again.
                lost.wait(0.9)
                return quire.Commit().append("orders", "Charged")
            case "value":
                return {"charged": True}
            case "fail":
                return quire.Fail("no funds", retry=False)
            case "raise":
                raise ValueError("no card")
        worker.stop()
        return quire.Snooze(3600)

    assert worker.run(charge) == {"completed": 2, "failed": 2, "snoozed": 1, "refused": 0}
    assert sorted(seen) == ["commit", "fail", "raise", "snooze", "value"]
    assert [(text, "no card" in error) for text, error in errors] == [("raise", True)]
    assert db.store("orders").head() == 1
    with pytest.raises(RuntimeError, match="runs once"):
        worker.run(charge)


async def test_asyncio_commits_and_subscribes(db: quire.Database) -> None:
    store = db.store("orders")

    async def collect(count: int) -> list[int]:
        positions = []
        async for event in store.subscribe():
            positions.append(event.position)
            if len(positions) == count:
                break
        return positions

    collected = asyncio.create_task(collect(20))
    waiting = [asyncio.ensure_future(anext(aiter(store.subscribe(quire.Query("Never"))))) for _ in range(50)]
    await asyncio.sleep(0)
    done = await asyncio.gather(*[db.commit_async(quire.Commit().append("orders", "Placed")) for _ in range(20)])
    assert sorted(result.position for result in done) == list(range(1, 21))
    assert await asyncio.wait_for(collected, 60) == list(range(1, 21))
    with pytest.raises(quire.ConditionFailed):
        any_event = quire.fail_if_matches(quire.Query())
        await db.commit_async(quire.Commit().append("orders", "Placed", conditions=any_event))
    for future in waiting:
        future.cancel()
    store.append("Never")
    assert [future.cancelled() or future.done() for future in waiting] == [True] * 50


async def test_a_wait_in_a_directory_costs_no_thread(embedded: quire.Database) -> None:
    threads = threading.active_count()
    store = embedded.store("orders")
    waiting = [asyncio.ensure_future(anext(aiter(store.subscribe()))) for _ in range(50)]
    await asyncio.sleep(0)
    assert threading.active_count() == threads
    for future in waiting:
        future.cancel()
    done = await asyncio.gather(*[embedded.commit_async(quire.Commit().append("orders", "Placed")) for _ in range(20)])
    assert [result.position for result in done] == list(range(1, 21))


async def test_a_cancelled_wait_loses_no_event(db: quire.Database) -> None:
    store = db.store("orders")
    subscription = store.subscribe()
    for number in range(3):
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(anext(aiter(subscription)), 0.01)
        await db.commit_async(quire.Commit().append("orders", "Placed", str(number)))
        assert (await asyncio.wait_for(anext(aiter(subscription)), 60)).text() == str(number)


async def test_asyncio_waits_for_durability(tmp_path: Any) -> None:
    with quire.open(tmp_path / "data", sync="sync") as db:
        done = await asyncio.gather(*[db.commit_async(quire.Commit().produce("t", str(n))) for n in range(50)])
        assert sorted(result.position for result in done) == list(range(1, 51))
        assert db.topic("t").offsets() == (0, 50)


async def test_asyncio_works_jobs_under_heartbeats(db: quire.Database) -> None:
    queue = db.queue("mails")

    async def work() -> list[str]:
        done: list[str] = []
        async for job in queue.jobs("smtp", lease=0.3):
            if not done:
                # Three leases long: without heartbeats the acknowledgement is refused.
                await asyncio.sleep(0.9)
            await queue.ack_async(job)
            done.append(job.text())
            if len(done) == 2:
                break
        return done

    working = asyncio.create_task(work())
    await asyncio.sleep(0)
    queue.enqueue("one")
    queue.enqueue("two", run_in=0.05)
    assert await asyncio.wait_for(working, 60) == ["one", "two"]


async def test_asyncio_consumes_a_topic(db: quire.Database) -> None:
    topic = db.topic("orders")
    topic.create()
    consumer = topic.consumer("group")
    consumed = asyncio.ensure_future(anext(aiter(consumer)))
    await asyncio.sleep(0)
    topic.produce("x")
    delivery = await asyncio.wait_for(consumed, 60)
    consumer.ack(delivery)
    assert ([record.text() for record in delivery], topic.committed_offset("group")) == (["x"], 1)


class Interrupted(Exception):
    """What the handler of the signal raises."""


WAITS: dict[str, Callable[[quire.Database], object]] = {
    "subscription": lambda db: next(db.store("s").subscribe()),
    "queue": lambda db: db.queue("q").fetch("w", wait=None),
    "worker": lambda db: db.queue("q").worker("w").run(lambda job: None),
    "consumer": lambda db: next(db.topic("t").consumer("g")),
    "handler": lambda db: db.topic("t").consumer("g").run(lambda records: None),
}


def interrupted(wait: Callable[[], object]) -> None:
    def interrupt(*_arguments: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(Interrupted):
            wait()
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("name", WAITS)
def test_a_signal_ends_a_wait(db: quire.Database, name: str) -> None:
    db.topic("t").create()
    interrupted(lambda: WAITS[name](db))
    assert db.store("s").append("Placed") == 1


def test_a_signal_ends_a_wait_for_any_commit(embedded: quire.Database) -> None:
    interrupted(lambda: embedded.wait_after(embedded.position + 1))
