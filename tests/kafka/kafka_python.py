"""kafka-python, a client that shares no code with librdkafka, against a server that runs already."""

import itertools
import subprocess
import sys
import threading
import time

import kafka
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import ConfigResource, NewTopic, OffsetSpec
from kafka.errors import KafkaError, TopicAlreadyExistsError

from checks import CODECS, SECONDS_MAX, expect, run, until

HOUR_MS = 3_600_000
START_MS = 1_700_000_000_000


def admin(bootstrap):
    return KafkaAdminClient(bootstrap_servers=bootstrap)


def create(bootstrap, topic, partitions=1, **configs):
    with admin(bootstrap) as administrator:
        administrator.create_topics([NewTopic(topic, partitions, 1, topic_configs=configs)])


def produce(bootstrap, topic, values, partition=0, **settings):
    """Produces values, each a millisecond later than the one before, and says where they went."""
    settings.setdefault("enable_idempotence", False)
    producer = KafkaProducer(bootstrap_servers=bootstrap, **settings)
    times = itertools.count(START_MS)
    sent = [producer.send(topic, value.encode(), partition=partition, timestamp_ms=next(times)) for value in values]
    producer.flush(SECONDS_MAX)
    offsets = [future.get(SECONDS_MAX).offset for future in sent]
    producer.close()
    return offsets


def reader(bootstrap, **settings):
    settings.setdefault("enable_auto_commit", False)
    return KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", **settings)


def read(bootstrap, topic, count, begin=0):
    consumer = reader(bootstrap)
    place = TopicPartition(topic, 0)
    consumer.assign([place])
    consumer.seek(place, begin)
    records = []

    def more():
        for batch in consumer.poll(1000).values():
            records.extend(batch)
        return records if len(records) >= count else None

    try:
        return until(more, f"{count} messages of {topic} were read")
    finally:
        consumer.close()


def every_codec_is_read_back_with_every_acks(bootstrap):
    topic, sent = "python-codecs", []
    create(bootstrap, topic)
    for codec, acks in itertools.product(CODECS, [0, 1, "all"]):
        batch = [f"{codec} {acks} {number} " * (number % 9 + 1) for number in range(50)]
        produce(bootstrap, topic, batch, acks=acks, compression_type=None if codec == "none" else codec)
        sent += batch
        place = TopicPartition(topic, 0)
        consumer = reader(bootstrap)
        until(lambda: consumer.end_offsets([place])[place] == len(sent) or None, f"{len(sent)} messages were there")
        consumer.close()
    expect([record.value.decode() for record in read(bootstrap, topic, len(sent))] == sent, "what was read is not what was sent")
    return f"{len(sent)} messages"


def an_idempotent_producer_numbers_without_a_gap(bootstrap):
    topic = "python-idempotent"
    create(bootstrap, topic)
    values = [str(number) for number in range(2000)]
    offsets = produce(bootstrap, topic, values, enable_idempotence=True, acks="all", batch_size=200)
    expect(offsets == list(range(2000)), f"the offsets are {offsets[:5]} to {offsets[-5:]}")
    expect([record.value.decode() for record in read(bootstrap, topic, 2000)] == values, "the order is another")
    return "2000 messages"


def offsets_are_found_by_time(bootstrap):
    topic = "python-times"
    create(bootstrap, topic)
    produce(bootstrap, topic, [str(number) for number in range(500)], compression_type="gzip")
    place, consumer = TopicPartition(topic, 0), reader(bootstrap)
    found = consumer.offsets_for_times({place: START_MS + 123})[place]
    expect((found.offset, found.timestamp) == (123, START_MS + 123), found)
    expect(consumer.offsets_for_times({place: START_MS + HOUR_MS})[place] is None, "nothing is as late as that")
    ends = (consumer.beginning_offsets([place])[place], consumer.end_offsets([place])[place])
    expect(ends == (0, 500), ends)
    consumer.close()
    with admin(bootstrap) as administrator:
        latest = administrator.list_partition_offsets({place: OffsetSpec.MAX_TIMESTAMP})[place]
    expect(latest.offset == 499, latest)
    expect(read(bootstrap, topic, 1, begin=123)[0].value == b"123", "another record is there")
    return "500 messages"


class Member(threading.Thread):
    """A member of a group that polls all the time. It has to: in kafka-python 3.0.12, a join that ends between two polls of a
    short timeout is thrown away and begun anew (`join_group_async` takes a task that is done for none), so members that one
    thread polls in turn keep each other joining."""

    def __init__(self, bootstrap, group, topic):
        super().__init__(daemon=True)
        self.consumer = reader(bootstrap, group_id=group, session_timeout_ms=6000, heartbeat_interval_ms=200)
        self.consumer.subscribe([topic])
        self.stop = threading.Event()
        self.share = []
        self.start()

    def run(self):
        while not self.stop.is_set():
            self.consumer.poll(100)
            self.share = sorted(place.partition for place in self.consumer.assignment())
        self.consumer.close()

    def leave(self):
        self.stop.set()
        self.join()


class Process:
    """A member in a process of its own, to be killed."""

    def __init__(self, bootstrap, group, topic):
        arguments = [sys.executable, "-B", __file__, bootstrap, "--member", group, topic]
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        # It tells of its first share, and then goes on polling.
        expect(self.process.stdout.readline() == "shares\n", "a member joined")

    def kill(self):
        self.process.kill()
        self.process.wait()


def poll_until_killed(bootstrap, group, topic):
    member = Member(bootstrap, group, topic)
    until(lambda: member.share or time.sleep(0.01), "there was a share")
    print("shares", flush=True)
    member.join()


def a_group_shares_the_partitions_while_members_join_leave_and_are_killed(bootstrap):
    topic = group = "python-group"
    create(bootstrap, topic, 6)

    def shared(members, sizes):
        def all_there():
            time.sleep(0.01)
            expect(all(member.is_alive() for member in members), "a member failed")
            shares = [member.share for member in members]
            whole = sorted(itertools.chain(*shares)) == list(range(6))
            return whole and sorted(len(share) for share in shares) == sizes or None

        until(all_there, f"the partitions were shared as {sizes}")

    members = [Member(bootstrap, group, topic) for _ in range(2)]
    shared(members, [3, 3])
    members.append(Member(bootstrap, group, topic))
    shared(members, [2, 2, 2])
    members.pop(0).leave()
    shared(members, [3, 3])
    with admin(bootstrap) as administrator:
        described = administrator.describe_groups([group])[group]
    expect(described["group_state"] == "Stable" and len(described["members"]) == 2, described)
    third = Process(bootstrap, group, topic)
    until(lambda: sum(len(member.share) for member in members) < 6 or time.sleep(0.01), "the third had a share")
    third.kill()
    shared(members, [3, 3])
    for member in members:
        member.leave()
    return "2 members, 3, 2 again, and a third that was killed"


def committed_offsets_are_where_a_group_goes_on(bootstrap):
    topic = group = "python-offsets"
    create(bootstrap, topic)
    produce(bootstrap, topic, [str(number) for number in range(10)])
    place = TopicPartition(topic, 0)
    consumer = reader(bootstrap, group_id=group)
    consumer.assign([place])
    consumer.commit({place: OffsetAndMetadata(4, "so far", -1)})
    expect(consumer.committed(place) == 4, consumer.committed(place))
    consumer.close()
    consumer = reader(bootstrap, group_id=group)
    consumer.subscribe([topic])
    batches = until(lambda: consumer.poll(500) or None, "a message was read")
    expect(batches[place][0].offset == 4, batches[place][0])
    consumer.close()
    with admin(bootstrap) as administrator:
        offsets = administrator.list_group_offsets({group: None})[group]
        expect(offsets[place].offset == 4, offsets)
        expect(group in [it["group_id"] for it in administrator.list_groups()], "not listed")
        administrator.delete_groups([group])
        expect(group not in [it["group_id"] for it in administrator.list_groups()], "it was deleted")
    return "committed, listed, deleted"


def topics_are_created_described_altered_and_deleted(bootstrap):
    topic = "python-topic"
    with admin(bootstrap) as administrator:
        wanted = NewTopic(topic, 2, 1, topic_configs={"retention.ms": str(HOUR_MS)})
        administrator.create_topics([wanted], validate_only=True)
        expect(topic not in administrator.list_topics(), "it was only to be validated")
        administrator.create_topics([wanted])
        try:
            administrator.create_topics([wanted])
            expect(False, "the topic is there already")
        except TopicAlreadyExistsError:
            pass
        config = lambda: administrator.describe_configs([ConfigResource("TOPIC", topic)], config_filter="all")["topic"][topic]
        administrator.alter_configs([ConfigResource("TOPIC", topic, {"max.message.bytes": "1000"})])
        found = {name: config()[name]["value"] for name in ["retention.ms", "max.message.bytes"]}
        expect(found == {"retention.ms": str(HOUR_MS), "max.message.bytes": "1000"}, found)
        try:
            produce(bootstrap, topic, ["x" * 2000])
            expect(False, "the message is larger than the topic takes")
        except KafkaError as error:
            refusal = type(error).__name__
        administrator.create_partitions({topic: 5})
        [described] = administrator.describe_topics([topic])
        expect(len(described["partitions"]) == 5, described)
        produce(bootstrap, topic, ["a", "b", "c"], partition=4)
        administrator.delete_records({TopicPartition(topic, 4): 2})
        place, consumer = TopicPartition(topic, 4), reader(bootstrap)
        expect(consumer.beginning_offsets([place])[place] == 2, "two records were deleted")
        consumer.close()
        administrator.delete_topics([topic])
        expect(topic not in administrator.list_topics(), "it was deleted")
    return refusal


CHECKS = [
    every_codec_is_read_back_with_every_acks,
    an_idempotent_producer_numbers_without_a_gap,
    offsets_are_found_by_time,
    a_group_shares_the_partitions_while_members_join_leave_and_are_killed,
    committed_offsets_are_where_a_group_goes_on,
    topics_are_created_described_altered_and_deleted,
]

if __name__ == "__main__":
    if "--member" in sys.argv:
        sys.exit(poll_until_killed(sys.argv[1], *sys.argv[3:]))
    run(f"kafka-python {kafka.__version__}", CHECKS)
