"""Each model, and one commit across the four."""

import pickle
from pathlib import Path

import pytest

import quire


def test_a_store_appends_reads_and_refuses_with_facts(db: quire.Database) -> None:
    store = db.store("orders")
    assert store.append("Placed", {"customer": "ann"}, tags=["order:17"], metadata=b"m") == 1
    batch = [quire.NewEvent("Charged", b"\x00\xff", tags=["order:17"]), quire.NewEvent("Placed", "text")]
    appended = store.append_all(batch)
    assert (appended.first, appended.last, appended.duplicate) == (2, 3, False)

    events = store.read()
    assert [event.type for event in events] == ["Placed", "Charged", "Placed"]
    assert (len(events), events.head, events[0].json(), events[2].text()) == (3, 3, {"customer": "ann"}, "text")
    assert (events[0].tags, events[0].metadata, events[1].data) == (["order:17"], b"m", b"\x00\xff")
    assert 0 < events[0].time and len(events[0].id) == 36
    assert [event.position for event in store.read(quire.Query(tags=["order:17"]))] == [1, 2]
    either = quire.Query("Charged") | quire.Query("Placed", tags=["order:17"])
    assert [event.position for event in store.read(either, backwards=True, limit=1)] == [2]
    assert store.read(after=2, limit=1)[0].position == store.head() == 3

    placed = quire.Query("Placed", tags=["order:17"])
    with pytest.raises(quire.ConditionFailed) as failed:
        store.append("Placed", tags=["order:17"], conditions=quire.fail_if_matches(placed))
    assert failed.value.code == "condition_failed"
    assert failed.value.facts == {"condition": 0, "position": 1, "part": 0}
    assert store.append("Placed", conditions=[quire.last_is(placed, 1), quire.fail_if_matches(placed, after=3)]) == 4
    copied = pickle.loads(pickle.dumps(failed.value))
    assert (type(copied), copied.code, copied.facts) == (type(failed.value), failed.value.code, failed.value.facts)


def test_a_subscription_returns_existing_and_new_events(db: quire.Database) -> None:
    store = db.store("orders")
    store.append("Placed", "1")
    store.append("Other", "2")
    subscription = store.subscribe(quire.Query("Placed"))
    assert next(subscription).text() == "1"
    assert subscription.next(timeout=0) is None
    store.append("Placed", "3")
    assert [event.text() for _, event in zip(range(1), subscription)] == ["3"]
    with pytest.raises(quire.Invalid):
        store.subscribe(after=99)


def test_a_queue_hands_out_jobs_under_leases(db: quire.Database) -> None:
    queue = db.queue("mails")
    assert queue.stats() is None
    first = queue.enqueue({"to": "ann"}, kind="mail", tags=["x"], attempts_max=2)
    assert queue.enqueue("twice", unique="key") == queue.enqueue("again", unique="key")
    queue.enqueue("later", run_in=3600)
    with pytest.raises(TypeError, match="speed"):
        queue.enqueue("job", speed=3)  # type: ignore[call-arg]

    jobs = queue.fetch("smtp-1", 10)
    assert [job.id for job in jobs][0] == first and len(jobs) == 2
    assert (jobs[0].json(), jobs[0].kind, jobs[0].attempt, jobs[0].queue) == ({"to": "ann"}, "mail", 1, "mails")
    queue.heartbeat(jobs[0], lease=60)
    queue.ack(jobs[0], {"sent": True})
    with pytest.raises(quire.StaleLease) as stale:
        queue.ack(jobs[0])
    assert stale.value.code == "stale_lease" and stale.value.facts["job"] == first
    queue.fail(jobs[1], "no such address", retry=False)
    stats = queue.stats()
    assert stats is not None
    assert (stats["completed"], stats["dead"], stats["scheduled"]) == (1, 1, 1)
    assert queue.fetch("smtp-1", wait=0.01) == []
    queue.enqueue("soon")
    queue.snooze(queue.fetch("smtp-1")[0], 3600)
    assert queue.fetch("smtp-1") == []


def test_a_topic_keeps_records_and_offsets(db: quire.Database) -> None:
    topic = db.topic("orders")
    with pytest.raises(quire.NotFound):
        topic.offsets()
    topic.create(partitions=2)
    with pytest.raises(quire.Refused) as refused:
        topic.create()
    assert refused.value.code == "topic_exists"
    produced = topic.produce({"n": 1}, key="k", headers={"h": b"v", "none": None}, partition=1, time=12.5)
    assert (produced.partition, produced.offset) == (1, 0)
    topic.produce(None, key="k", partition=1)
    records = topic.read(1)
    assert (len(records), records.next_offset, records[0].json(), records[0].key) == (2, 2, {"n": 1}, b"k")
    assert (records[0].time, records[0].headers) == (12.5, [("h", b"v"), ("none", None)])
    assert (records[1].value, records[1].text()) == (None, None)
    topic.commit_offset("group", 1, 1)
    assert (topic.committed_offset("group", 1), topic.committed_offset("group"), topic.offsets(1)) == (1, None, (0, 2))


def test_a_consumer_commits_what_it_makes_with_its_offset(db: quire.Database) -> None:
    topic = db.topic("orders")
    for number in range(3):
        topic.produce(str(number))
    consumer = topic.consumer("mailer", records_max=2)
    delivery = consumer.next(timeout=1)
    assert delivery is not None
    assert ([record.text() for record in delivery], delivery.partition, delivery.lost) == (["0", "1"], 0, 0)
    consumer.ack(delivery, quire.Commit().enqueue("mails", "0 and 1"))
    assert topic.committed_offset("mailer") == 2

    def mail(records: list[quire.Record]) -> quire.Commit:
        consumer.stop()
        return quire.Commit().enqueue("mails", [record.text() for record in records])

    consumer.run(mail)
    assert topic.committed_offset("mailer") == 3
    assert [job.payload for job in db.queue("mails").fetch("smtp", 9)] == [b"0 and 1", b'["2"]']


def test_a_handler_of_a_consumer_that_fails_ends_in_the_dead_letters(db: quire.Database) -> None:
    topic = db.topic("orders")
    topic.produce("bad")
    consumer = topic.consumer("mailer", retries=0)

    def fail(_records: list[quire.Record]) -> None:
        raise ValueError("no address")

    with pytest.raises(quire.HandlerFailed, match="no address"):
        consumer.run(fail)
    consumer = topic.consumer("mailer", retries=0, dead_letter="dead", from_start=True)

    def fail_and_stop(records: list[quire.Record]) -> None:
        consumer.stop()
        fail(records)

    consumer.run(fail_and_stop)
    assert db.topic("dead").read()[0].text() == "bad"
    assert topic.committed_offset("mailer") == 1


def test_members_of_a_group_share_partitions(embedded: quire.Database) -> None:
    topic = embedded.topic("orders")
    topic.create(partitions=1)
    member = topic.consumer("group", member="one", lease=5)
    topic.produce("x")
    assert member.next(timeout=5) is not None


def test_a_graph_links_walks_and_finds_paths(db: quire.Database) -> None:
    graph = db.graph("routes")
    with pytest.raises(quire.NotFound):
        graph.block("EWR")
    put = graph.put("EWR", "airport", {"city": "Newark"}, tags=["us"], metadata={"runways": 3})
    assert (put.version, put.created) == (1, True)
    for code in ["IAH", "LAX", "alone"]:
        graph.put(code, "airport")
    graph.link("EWR", "flies_to", "IAH", {"miles": 1400})
    graph.link("IAH", "flies_to", "LAX")
    with pytest.raises(quire.Refused) as missing:
        graph.link("EWR", "flies_to", "nowhere")
    assert missing.value.code == "missing_block"
    block = graph.block("EWR")
    assert block is not None
    assert (block.json(), block.kind, block.tags, block.version) == ({"city": "Newark"}, "airport", ["us"], 1)
    assert graph.block("nowhere") is None
    found = graph.neighbours("IAH", direction="both")
    assert {(end.name, end.edge_type, end.outgoing) for end in found} == {
        ("LAX", "flies_to", True),
        ("EWR", "flies_to", False),
    }
    assert graph.neighbours("IAH", types=["drives_to"]) == []
    assert [(visit.name, visit.depth) for visit in graph.walk("EWR")] == [("EWR", 0), ("IAH", 1), ("LAX", 2)]
    assert graph.path("EWR", "LAX") == ["EWR", "IAH", "LAX"]
    assert graph.path("EWR", "alone") is None
    with pytest.raises(quire.VersionMismatch):
        graph.put("EWR", "airport", expect_version=7)
    graph.unlink("IAH", "flies_to", "LAX")
    graph.delete("LAX")
    assert graph.path("EWR", "IAH", direction="in") is None and graph.block("LAX") is None


def test_one_commit_changes_four_models_or_none(db: quire.Database) -> None:
    def commit() -> quire.Commit:
        placed = quire.fail_if_matches(quire.Query("Placed", tags=["order:17"]))
        return (
            quire.Commit()
            .append("orders", "Placed", tags=["order:17"], conditions=placed)
            .enqueue("charges", {"order": 17})
            .produce("placed", "order 17", key="ann")
            .commit_offset("group", "placed", 0, 1)
            .put("customers", "ann", "customer")
            .put("customers", "17", "order")
            .link("customers", "ann", "placed", "17")
        )

    assert len(commit()) == 7
    done = db.commit(commit())
    appended, enqueued, produced, _, put, _, _ = done.replies
    assert isinstance(appended, quire.AppendResult) and appended.last == 1
    assert isinstance(enqueued, quire.EnqueueResult) and isinstance(put, quire.PutResult)
    assert isinstance(produced, quire.ProduceResult) and produced.offset == 0
    assert done.position == db.position
    with pytest.raises(quire.ConditionFailed) as refused:
        db.commit(commit())
    assert refused.value.facts["part"] == 0
    assert (db.store("orders").head(), db.topic("placed").offsets()) == (1, (0, 1))
    job = db.queue("charges").fetch("cashier", 9)[0]
    assert job.id == enqueued.job
    charged = quire.Commit().ack(job, "ok").append_all("orders", [quire.NewEvent("Charged")])
    db.commit(charged)
    stats = db.queue("charges").stats()
    assert stats is not None and (stats["completed"], db.store("orders").head()) == (1, 2)
    with pytest.raises(quire.StaleLease) as stale:
        db.commit(quire.Commit().append("orders", "Charged").fail(job, "late", retry_in=1))
    assert (stale.value.facts["part"], db.store("orders").head()) == (1, 2)


def test_a_key_answers_a_repeated_commit_with_its_first_result(db: quire.Database) -> None:
    def commit() -> quire.Commit:
        return quire.Commit(idempotency_key="order-17").produce("placed", "17")

    first, second = db.commit(commit()), db.commit(commit())
    assert (first.is_replay, second.is_replay, first.position) == (False, True, second.position)
    assert db.topic("placed").offsets() == (0, 1)


def test_values_follow_one_rule(db: quire.Database) -> None:
    store = db.store("values")
    for value in [b"b", bytearray(b"ba"), memoryview(b"mv"), "é", None, 1, 1.5, True, [1], {"ü": None}]:
        store.append("Value", value)
    assert [event.data for event in store.read()] == [
        b"b", b"ba", b"mv", "é".encode(), b"", b"1", b"1.5", b"true", b"[1]", '{"ü":null}'.encode(),
    ]  # fmt: skip
    for invalid in [object(), float("nan"), {b"k": 1}]:
        with pytest.raises((TypeError, ValueError)):
            store.append("Value", invalid)
    with pytest.raises(TypeError, match="list of texts"):
        store.append("Value", tags="one")
    assert store.head() == 10


def test_a_failed_opening_names_the_problem(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="sync must be"):
        quire.open(tmp_path, sync="maybe")  # type: ignore[arg-type]
    with pytest.raises(quire.Error) as missing:
        quire.open(tmp_path / "missing", create=False)
    assert missing.value.code == "not_a_database"
    db = quire.open(tmp_path / "data", sync="os", exclusive=True)
    with pytest.raises(quire.InUse):
        quire.open(tmp_path / "data", sync="os", exclusive=True)
    store = db.store("s")
    store.append("Value", "1")
    db.close()
    with pytest.raises(quire.Failed, match="closed"):
        store.append("Value", "2")
    with quire.open(tmp_path / "data", read_only=True) as reader:
        assert reader.store("s").read()[0].text() == "1"
        with pytest.raises(quire.ReadOnly):
            reader.store("s").append("Value", "2")
