"""What an ordinary Kafka client sees of `quire demo`.

Each check is a function whose name is a sentence; the first that does not hold ends the run with status 1 and says what
was found. Nothing here knows how Quire is made: only the Kafka protocol, the HTTP health page and the demo's report.
"""

import argparse
import collections
import csv
import json
import pathlib
import sys
import time
import urllib.request

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

DEPARTURES = "departures"
FLIGHTS = "air.flights"
OWN_TOPIC = "read-demo"
ORIGINS = {"EWR", "JFK", "LGA"}
COMPRESSIONS = ["none", "gzip", "snappy", "lz4", "zstd"]
FLIGHTS_CSV = pathlib.Path(__file__).parents[2] / "examples/data/flights/flights-2013-01-01_07.csv"

# Generous: they bound how long a broken server can hang the run, not how fast a good one is.
REQUEST_SECONDS_MAX = 15
READ_SECONDS_MAX = 60


class Failed(Exception):
    """A check does not hold."""


def expect(holds, message):
    if not holds:
        raise Failed(message)


class World:
    """The server under test, and what its demo reported."""

    def __init__(self, arguments):
        self.bootstrap = arguments.bootstrap
        self.http = arguments.http
        self.events = arguments.events
        self.messages = arguments.messages
        self.jobs = arguments.jobs

    def settings(self, **more):
        return {"bootstrap.servers": self.bootstrap, "socket.timeout.ms": REQUEST_SECONDS_MAX * 1000, **more}

    def metadata(self):
        return AdminClient(self.settings()).list_topics(timeout=REQUEST_SECONDS_MAX)

    def consumer(self):
        return Consumer(self.settings(**{"group.id": "read-demo", "enable.auto.commit": False, "check.crcs": True}))

    def read(self, topic):
        """Every message of a topic, in order within each partition, by a consumer that assigns itself."""
        consumer = self.consumer()
        try:
            partitions = self.metadata().topics[topic].partitions
            ends, starts = {}, []
            for partition in partitions:
                low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=REQUEST_SECONDS_MAX)
                ends[partition] = high
                starts.append(TopicPartition(topic, partition, low))
            consumer.assign(starts)
            next_offset = {start.partition: start.offset for start in starts}
            messages = []
            deadline = time.monotonic() + READ_SECONDS_MAX
            while any(next_offset[partition] < ends[partition] for partition in partitions):
                expect(
                    time.monotonic() < deadline,
                    f"{topic}: {READ_SECONDS_MAX} s passed before offset {ends}; the reader stands at {next_offset}",
                )
                for message in consumer.consume(num_messages=1000, timeout=1.0):
                    if message.error():
                        raise KafkaException(message.error())
                    expected = next_offset[message.partition()]
                    expect(
                        message.offset() == expected,
                        f"{topic}[{message.partition()}]: offset {message.offset()} came where {expected} was next",
                    )
                    next_offset[message.partition()] = expected + 1
                    messages.append(message)
            return messages
        finally:
            consumer.close()


def the_server_says_that_it_is_well(world):
    with urllib.request.urlopen(f"http://{world.http}/healthz", timeout=REQUEST_SECONDS_MAX) as answer:
        expect(answer.status == 200, f"/healthz answers {answer.status}")
    return "healthz 200"


def the_topics_are_listed_with_a_leader(world):
    metadata = world.metadata()
    for topic in [DEPARTURES, FLIGHTS]:
        expect(topic in metadata.topics, f"no topic {topic} among {sorted(metadata.topics)}")
        for partition in metadata.topics[topic].partitions.values():
            expect(partition.error is None, f"{topic}[{partition.id}]: {partition.error}")
            expect(partition.leader in metadata.brokers, f"{topic}[{partition.id}]: no leader")
        expect(metadata.topics[topic].partitions, f"{topic} has no partitions")
    return ", ".join(sorted(metadata.topics))


def departures_holds_a_message_for_each_reported_one_keyed_by_origin(world):
    messages = world.read(DEPARTURES)
    expect(messages, "no message at all")
    if world.messages is not None:
        expect(len(messages) == world.messages, f"{len(messages)} messages, but the demo reported {world.messages}")
    with open(FLIGHTS_CSV, newline="") as file:
        scheduled = collections.Counter(row["origin"] for row in csv.DictReader(file))
    found = collections.Counter()
    for message in messages:
        origin = message.key().decode()
        value = json.loads(message.value())
        expect(origin in ORIGINS, f"offset {message.offset()}: the key is {origin!r}")
        expect(isinstance(value, dict), f"offset {message.offset()}: the value is no JSON object: {value!r}")
        expect(value.get("origin", origin) == origin, f"offset {message.offset()}: key {origin!r}, value {value}")
        found[origin] += 1
    for origin in ORIGINS:
        expect(
            0 < found[origin] <= scheduled[origin],
            f"{found[origin]} departures from {origin}, but {scheduled[origin]} flights were scheduled there",
        )
    return f"{len(messages)} messages: " + ", ".join(f"{origin} {count}" for origin, count in sorted(found.items()))


def the_event_store_is_a_topic_with_types_and_tags_as_headers(world):
    messages = world.read(FLIGHTS)
    expect(messages, "no event at all")
    if world.events is not None:
        expect(len(messages) == world.events, f"{len(messages)} events, but the demo reported {world.events}")
    types, planes = collections.Counter(), 0
    for message in messages:
        headers = [(name, (value or b"").decode()) for name, value in message.headers() or []]
        event_types = [value for name, value in headers if name == "type"]
        tags = [value for name, value in headers if name == "tag"]
        expect(len(event_types) == 1 and event_types[0], f"offset {message.offset()}: headers {headers}")
        expect(all(tags), f"offset {message.offset()}: an empty tag in {headers}")
        json.loads(message.value())
        types[event_types[0]] += 1
        planes += any(tag.startswith("plane:") for tag in tags)
    expect(planes, "no event carries a tag plane:...")
    if world.jobs is not None:
        notified = types["PassengersNotified"]
        expect(notified == world.jobs, f"{notified} events PassengersNotified, but {world.jobs} jobs were reported done")
    return f"{len(messages)} events: " + ", ".join(f"{name} {count}" for name, count in sorted(types.items()))


def what_is_produced_is_read_back_in_order(world):
    # A run against a server that ran before finds what the earlier run produced.
    present = len(world.read(OWN_TOPIC)) if OWN_TOPIC in world.metadata().topics else 0
    sent = []
    for compression in COMPRESSIONS:
        failures = []
        producer = Producer(
            world.settings(
                **{
                    "acks": "all",
                    "compression.type": compression,
                    "linger.ms": 5,
                    "message.timeout.ms": REQUEST_SECONDS_MAX * 1000,
                }
            )
        )
        for number in range(200):
            key, value = f"key-{number % 7}".encode(), f"{compression} {number} ".encode() * (number % 20 + 1)
            headers = [("number", str(number).encode()), ("number", b"again"), ("empty", b"")]
            producer.produce(
                OWN_TOPIC,
                key=key,
                value=value,
                headers=headers,
                partition=0,
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
            sent.append((key, value, headers))
        left = producer.flush(REQUEST_SECONDS_MAX)
        expect(not left and not failures, f"{compression}: {left} not acknowledged, errors: {failures[:3]}")
    messages = world.read(OWN_TOPIC)[present:]
    read = [(message.key(), message.value(), message.headers()) for message in messages]
    expect(len(read) == len(sent), f"{len(sent)} messages were acknowledged, {len(read)} are read back")
    for number, (one, other) in enumerate(zip(sent, read)):
        expect(one == other, f"message {number} was sent as {one} and is read as {other}")
    return f"{len(read)} messages, compressions " + ", ".join(COMPRESSIONS)


def producing_to_the_event_store_is_refused(world):
    before = len(world.read(FLIGHTS))
    errors = []
    producer = Producer(world.settings(**{"acks": "all", "message.timeout.ms": REQUEST_SECONDS_MAX * 1000}))
    producer.produce(FLIGHTS, value=b"{}", partition=0, on_delivery=lambda error, _: errors.append(error))
    producer.flush(REQUEST_SECONDS_MAX + 5)
    expect(errors and errors[0] is not None, "the event store took a message from a Kafka producer")
    # Negative codes are the client's own: it gave up, the server never said no.
    expect(errors[0].code() > 0, f"the server gave no answer that ends the attempt: {errors[0]}")
    expect(errors[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART, f"the topic is listed, yet: {errors[0]}")
    after = len(world.read(FLIGHTS))
    expect(after == before, f"{before} events before the refused message, {after} after")
    return errors[0].name()


CHECKS = [
    the_server_says_that_it_is_well,
    the_topics_are_listed_with_a_leader,
    departures_holds_a_message_for_each_reported_one_keyed_by_origin,
    the_event_store_is_a_topic_with_types_and_tags_as_headers,
    what_is_produced_is_read_back_in_order,
    producing_to_the_event_store_is_refused,
]


def main():
    parser = argparse.ArgumentParser(description="Reads and writes a running `quire demo --keep` as a Kafka client.")
    parser.add_argument("--bootstrap", required=True, metavar="ADDRESS", help="where the demo serves the Kafka protocol")
    parser.add_argument("--http", required=True, metavar="ADDRESS", help="where the demo serves HTTP")
    parser.add_argument("--events", type=int, metavar="N", help="events in air/flights that the demo reported")
    parser.add_argument("--messages", type=int, metavar="N", help="messages in departures that the demo reported")
    parser.add_argument("--jobs", type=int, metavar="N", help="jobs that the demo reported done")
    world = World(parser.parse_args())
    for check in CHECKS:
        name = check.__name__.replace("_", " ")
        try:
            print(f"ok      {name}: {check(world)}", flush=True)
        except (Failed, KafkaException, OSError, ValueError) as failure:
            print(f"FAILED  {name}: {failure}", flush=True)
            return 1
    print(f"a Kafka client sees what it should: {len(CHECKS)} checks")
    return 0


if __name__ == "__main__":
    sys.exit(main())
