"""confluent-kafka, which is librdkafka, against a server that runs already: what its users do, and what comes of it."""

import functools
import itertools

import confluent_kafka
from confluent_kafka import (
    Consumer, ConsumerGroupState, ConsumerGroupTopicPartitions, IsolationLevel, KafkaError, KafkaException, OFFSET_END,
    Producer, TopicPartition, libversion,
)
from confluent_kafka.admin import (
    AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic, OffsetSpec, ResourceType,
)

from checks import CODECS, SECONDS_MAX, expect, run, until

HOUR_MS = 3_600_000
START_MS = 1_700_000_000_000


@functools.cache
def admin(bootstrap):
    """One for all checks: a client that is dropped drops its requests."""
    return AdminClient({"bootstrap.servers": bootstrap})


def create(bootstrap, name, partitions=1, **config):
    config = {key.replace("_", "."): value for key, value in config.items()}
    admin(bootstrap).create_topics([NewTopic(name, partitions, config=config)])[name].result(SECONDS_MAX)


def produce(bootstrap, topic, messages, partition=0, **settings):
    """Produces (value, time) pairs, and says where each went; `None` where nobody says."""
    settings = {key.replace("_", "."): value for key, value in settings.items()}
    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": SECONDS_MAX * 1000, **settings})
    offsets, errors = [], []

    def delivered(error, message):
        errors.append(error) if error else offsets.append(message.offset())

    for value, time_ms in messages:
        producer.produce(topic, value, partition=partition, timestamp=time_ms, on_delivery=delivered)
    left = producer.flush(SECONDS_MAX)
    expect(not left and not errors, f"{left} are not delivered, and {errors[:3]} failed")
    return offsets


def values(*numbers):
    return [(f"value {number}", START_MS + number) for number in numbers]


def read(bootstrap, topic, count, begin=0, partition=0):
    """So many messages of a partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False, "check.crcs": True})
    consumer.assign([TopicPartition(topic, partition, begin)])
    messages = []

    def more():
        for message in consumer.consume(count - len(messages), 1):
            if message.error():
                raise KafkaException(message.error())
            messages.append(message)
        return messages if len(messages) >= count else None

    try:
        return until(more, f"{count} messages of {topic} were read")
    finally:
        consumer.close()


def watermarks(bootstrap, topic, partition=0):
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none"})
    try:
        return consumer.get_watermark_offsets(TopicPartition(topic, partition), SECONDS_MAX)
    finally:
        consumer.close()


def refused(what):
    """The code that a call is refused with."""
    try:
        what()
    except KafkaException as error:
        return error.args[0].code()
    return None


def every_codec_is_read_back_with_every_acks(bootstrap):
    topic = "rdkafka-codecs"
    create(bootstrap, topic)
    sent = []
    for codec, acks in itertools.product(CODECS, ["0", "1", "all"]):
        batch = [(f"{codec} {acks} {number} " * (number % 9 + 1), START_MS) for number in range(100)]
        produce(bootstrap, topic, batch, compression_type=codec, acks=acks)
        sent += [value for value, _ in batch]
        # What nobody acknowledged may come later than what comes next.
        until(lambda: watermarks(bootstrap, topic)[1] == len(sent) or None, f"{len(sent)} messages were there")
    found = [message.value().decode() for message in read(bootstrap, topic, len(sent))]
    expect(found == sent, "what was read is not what was sent")
    return f"{len(sent)} messages"


def an_idempotent_producer_numbers_without_a_gap(bootstrap):
    create(bootstrap, "rdkafka-idempotent")
    offsets = produce(bootstrap, "rdkafka-idempotent", values(*range(5000)), enable_idempotence=True, batch_num_messages=10)
    expect(offsets == list(range(5000)), f"the offsets are {offsets[:5]} to {offsets[-5:]}")
    found = [message.value().decode() for message in read(bootstrap, "rdkafka-idempotent", 5000)]
    expect(found == [value for value, _ in values(*range(5000))], "what was read is not what was sent, or in another order")
    return "5000 messages in batches of 10"


def keys_headers_times_and_tombstones_come_back(bootstrap):
    create(bootstrap, "rdkafka-records")
    producer = Producer({"bootstrap.servers": bootstrap})
    headers = [("a", b"1"), ("a", b"2"), ("none", None), ("empty", b"")]
    producer.produce("rdkafka-records", None, b"key", 0, timestamp=START_MS, headers=headers)
    producer.produce("rdkafka-records", b"", None, 0, timestamp=START_MS + 1)
    expect(producer.flush(SECONDS_MAX) == 0, "not delivered")
    first, second = read(bootstrap, "rdkafka-records", 2)
    found = (first.key(), first.value(), first.headers(), first.timestamp()[1])
    expect(found == (b"key", None, headers, START_MS), found)
    expect((second.key(), second.value(), second.timestamp()[1]) == (None, b"", START_MS + 1), second.value())
    return f"{len(headers)} headers"


def offsets_are_found_by_time(bootstrap):
    topic = "rdkafka-times"
    create(bootstrap, topic)
    for batch in range(20):
        times = [(f"{number}", START_MS + number * 1000) for number in range(batch * 50, batch * 50 + 50)]
        produce(bootstrap, topic, times, compression_type=CODECS[batch % len(CODECS)])
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none"})
    for time_ms, expected in [(0, 0), (START_MS + 333_000, 333), (START_MS + 333_001, 334), (START_MS + 10**9, OFFSET_END)]:
        [found] = consumer.offsets_for_times([TopicPartition(topic, 0, time_ms)], SECONDS_MAX)
        expect(found.offset == expected, f"{time_ms}: offset {found.offset}, and not {expected}")
    consumer.close()
    [message] = read(bootstrap, topic, 1, begin=334)
    expect(message.value() == b"334", message.value())
    ends = {}
    for name, spec in [("earliest", OffsetSpec.earliest()), ("latest", OffsetSpec.latest()), ("max", OffsetSpec.max_timestamp())]:
        place = TopicPartition(topic, 0)
        listed = admin(bootstrap).list_offsets({place: spec}, isolation_level=IsolationLevel.READ_COMMITTED)
        ends[name] = listed[place].result(SECONDS_MAX).offset
    expect(ends == {"earliest": 0, "latest": 1000, "max": 999}, ends)
    return "1000 messages in 20 batches of five codecs"


class Member:
    """A member of a group that shares the partitions of one topic."""

    def __init__(self, bootstrap, group, topic, **settings):
        settings = {key.replace("_", "."): value for key, value in settings.items()}
        self.consumer = Consumer({
            "bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False,
            "session.timeout.ms": 6000, "heartbeat.interval.ms": 200, **settings,
        })
        self.consumer.subscribe([topic])

    def share(self):
        """Takes part, and says which partitions it has."""
        self.consumer.consume(100, 0.05)
        return [place.partition for place in self.consumer.assignment()]


def shared(members, sizes):
    """Waits until the members have all of 12 partitions, each as many as it is to have."""

    def all_there():
        shares = [member.share() for member in members]
        whole = sorted(itertools.chain(*shares)) == list(range(12))
        return shares if whole and sorted(len(share) for share in shares) == sorted(sizes) else None

    return until(all_there, f"the partitions were shared as {sizes}")


def a_group_shares_the_partitions_while_members_join_and_leave(bootstrap):
    seen = []
    for assignor in ["range", "roundrobin", "cooperative-sticky"]:
        topic = group = f"rdkafka-group-{assignor}"
        create(bootstrap, topic, 12)
        settings = {"partition_assignment_strategy": assignor}
        members = [Member(bootstrap, group, topic, **settings) for _ in range(2)]
        shared(members, [6, 6])
        members.append(Member(bootstrap, group, topic, **settings))
        shared(members, [4, 4, 4])
        members.pop(0).consumer.close()
        shared(members, [6, 6])
        described = admin(bootstrap).describe_consumer_groups([group])[group].result(SECONDS_MAX)
        expect(described.state == ConsumerGroupState.STABLE and len(described.members) == 2, described.state)
        expect(described.partition_assignor == assignor, described.partition_assignor)
        for member in members:
            member.consumer.close()
        seen.append(assignor)
    return ", ".join(seen)


def a_static_member_comes_back_to_its_partitions(bootstrap):
    topic = group = "rdkafka-static"
    create(bootstrap, topic, 12)
    first = Member(bootstrap, group, topic, group_instance_id="one")
    second = Member(bootstrap, group, topic, group_instance_id="two")
    before = shared([first, second], [6, 6])
    # A static member that closes does not leave.
    second.consumer.close()
    second = Member(bootstrap, group, topic, group_instance_id="two")
    after = shared([first, second], [6, 6])
    expect(before == after, f"{before} became {after}")
    for member in [first, second]:
        member.consumer.close()
    return f"{after[1]}"


def committed_offsets_are_where_a_group_goes_on(bootstrap):
    topic = group = "rdkafka-offsets"
    create(bootstrap, topic)
    produce(bootstrap, topic, values(*range(10)))
    place = lambda offset=-1001, metadata="": TopicPartition(topic, 0, offset, metadata)
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False}
    consumer = Consumer(settings)
    expect(consumer.committed([place()], SECONDS_MAX)[0].offset == -1001, "nothing was committed yet")
    consumer.commit(offsets=[place(4, "so far")], asynchronous=False)
    [found] = consumer.committed([place()], SECONDS_MAX)
    expect((found.offset, found.metadata) == (4, "so far"), found)
    consumer.subscribe([topic])
    [message] = until(lambda: consumer.consume(1, 1) or None, "a message was read")
    expect(message.offset() == 4, message.offset())
    consumer.close()
    administrator = admin(bootstrap)
    expect(group in [it.group_id for it in administrator.list_consumer_groups().result(SECONDS_MAX).valid], "not listed")
    request = [ConsumerGroupTopicPartitions(group, [place(7)])]
    administrator.alter_consumer_group_offsets(request)[group].result(SECONDS_MAX)
    listed = administrator.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(SECONDS_MAX)
    expect([it.offset for it in listed.topic_partitions] == [7], listed.topic_partitions)
    administrator.delete_consumer_groups([group])[group].result(SECONDS_MAX)
    expect(Consumer(settings).committed([place()], SECONDS_MAX)[0].offset == -1001, "the group was deleted")
    return "committed, altered, listed, deleted"


def topics_are_created_described_altered_and_deleted(bootstrap):
    topic, administrator = "rdkafka-topic", admin(bootstrap)
    wanted = NewTopic(topic, 2, config={"retention.ms": str(HOUR_MS)})
    administrator.create_topics([wanted], validate_only=True)[topic].result(SECONDS_MAX)
    expect(topic not in administrator.list_topics(timeout=SECONDS_MAX).topics, "it was only to be validated")
    administrator.create_topics([wanted])[topic].result(SECONDS_MAX)
    again = refused(lambda: administrator.create_topics([wanted])[topic].result(SECONDS_MAX))
    expect(again == KafkaError.TOPIC_ALREADY_EXISTS, again)
    unknown = NewTopic("rdkafka-unknown", 1, config={"cleanup.policy": "tidy"})
    code = refused(lambda: administrator.create_topics([unknown])["rdkafka-unknown"].result(SECONDS_MAX))
    expect(code == KafkaError.INVALID_CONFIG, code)
    resource = lambda *entries: ConfigResource(ResourceType.TOPIC, topic, incremental_configs=list(entries))
    config = lambda: administrator.describe_configs([resource()])[resource()].result(SECONDS_MAX)
    expect(config()["retention.ms"].value == str(HOUR_MS), config()["retention.ms"])
    entry = ConfigEntry("retention.bytes", "1000000", incremental_operation=AlterConfigOpType.SET)
    administrator.incremental_alter_configs([resource(entry)])[resource()].result(SECONDS_MAX)
    expect(config()["retention.bytes"].value == "1000000" and config()["retention.ms"].value == str(HOUR_MS), config())
    administrator.create_partitions([NewPartitions(topic, 5)])[topic].result(SECONDS_MAX)
    described = administrator.describe_topics(confluent_kafka.TopicCollection([topic]))[topic].result(SECONDS_MAX)
    expect(len(described.partitions) == 5, described.partitions)
    cluster = administrator.describe_cluster().result(SECONDS_MAX)
    expect(len(cluster.nodes) == 1 and cluster.cluster_id, cluster)
    administrator.delete_topics([topic])[topic].result(SECONDS_MAX)
    expect(topic not in administrator.list_topics(timeout=SECONDS_MAX).topics, "it was deleted")
    return "2 partitions, then 5"


def records_go_when_they_are_deleted_or_too_old(bootstrap):
    topic, administrator = "rdkafka-deleted", admin(bootstrap)
    create(bootstrap, topic)
    produce(bootstrap, topic, values(*range(10)))
    administrator.delete_records([TopicPartition(topic, 0, 4)])[TopicPartition(topic, 0, 4)].result(SECONDS_MAX)
    expect(watermarks(bootstrap, topic) == (4, 10), watermarks(bootstrap, topic))
    [message] = read(bootstrap, topic, 1, begin=4)
    expect(message.value() == b"value 4", message.value())
    entry = ConfigEntry("retention.ms", str(HOUR_MS), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    administrator.incremental_alter_configs([resource])[resource].result(SECONDS_MAX)
    # The records are of 2023.
    until(lambda: watermarks(bootstrap, topic) == (10, 10) or None, "the records were gone")
    return "6 records of 2023"


def what_is_too_large_or_not_offered_is_refused_by_name(bootstrap):
    create(bootstrap, "rdkafka-small", max_message_bytes="1000")
    errors = []
    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": SECONDS_MAX * 1000})
    producer.produce("rdkafka-small", b"x" * 2000, on_delivery=lambda error, _: errors.append(error))
    producer.flush(SECONDS_MAX)
    expect(errors and errors[0] and errors[0].code() == KafkaError.MSG_SIZE_TOO_LARGE, errors)
    return errors[0].name()


CHECKS = [
    every_codec_is_read_back_with_every_acks,
    an_idempotent_producer_numbers_without_a_gap,
    keys_headers_times_and_tombstones_come_back,
    offsets_are_found_by_time,
    a_group_shares_the_partitions_while_members_join_and_leave,
    a_static_member_comes_back_to_its_partitions,
    committed_offsets_are_where_a_group_goes_on,
    topics_are_created_described_altered_and_deleted,
    records_go_when_they_are_deleted_or_too_old,
    what_is_too_large_or_not_offered_is_refused_by_name,
]

if __name__ == "__main__":
    run(f"confluent-kafka {confluent_kafka.__version__} (librdkafka {libversion()[0]})", CHECKS)
