"""Compacted topics, read by clients that we did not write while they are compacted.

Starts a server that compacts all the time (the example `compacting`), and writes keys that change, keys that are written once
and keys that go, with every codec, in batches of several records, by two producers. Every client then reads the topic from its
start, from a few offsets without a record, and at last when nothing more is to go: the newest record of each key is there,
under its offset, and every client gets the same and comes to the end.
"""

import argparse
import pathlib
import shlex
import subprocess
import tempfile
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as Place

from checks import CODECS, SECONDS_MAX, expect

TOPIC = "compacted"
FILLER = "filler"
ROUNDS = 30
TOLD_MS = 2000


def read_by_librdkafka(bootstrap, begin, _):
    """The records of the topic from an offset to where the client says that it ends: offset, key and value of each."""
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False, "check.crcs": True,
        "enable.partition.eof": True,
    })
    consumer.assign([TopicPartition(TOPIC, 0, begin)])
    records, until = [], time.monotonic() + SECONDS_MAX
    while True:
        expect(time.monotonic() < until, f"librdkafka did not come to the end, but to {records[-1:]}")
        for message in consumer.consume(500, 1):
            if message.error() is None:
                value = message.value()
                records.append((message.offset(), message.key().decode(), None if value is None else value.decode()))
            elif message.error().code() == KafkaError._PARTITION_EOF:
                consumer.close()
                return records
            else:
                raise KafkaException(message.error())


def read_by_kafka_python(bootstrap, begin, end):
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    place = Place(TOPIC, 0)
    consumer.assign([place])
    consumer.seek(place, begin)
    records, until = [], time.monotonic() + SECONDS_MAX
    while consumer.position(place) < end:
        expect(time.monotonic() < until, f"kafka-python did not come to {end}, but to {records[-1:]}")
        for batch in consumer.poll(1000).values():
            for record in batch:
                value = None if record.value is None else record.value.decode()
                records.append((record.offset, record.key.decode(), value))
    consumer.close()
    return records


def read_by_program(command):
    """A program that is told where the server is, the topic, the offset to begin at and the one to end before, and writes a line
    for each record: its offset, its key, and its value unless it has none."""

    def read(bootstrap, begin, end):
        arguments = [*command, bootstrap, "read", TOPIC, str(begin), str(end)]
        said = subprocess.run(arguments, check=True, capture_output=True, text=True, timeout=3 * SECONDS_MAX).stdout
        lines = [line.split("\t") for line in said.splitlines()]
        return [(int(line[0]), line[1], line[2] if len(line) > 2 else None) for line in lines]

    return read


class Written:
    """What was written, in the order of its offsets."""

    def __init__(self):
        self.records = []

    def newest(self):
        return {key: (offset, value) for offset, (key, value) in enumerate(self.records)}

    def check(self, client, found, begin=0):
        """Holds what a client read against what has to be there, whatever was compacted by then."""
        offsets = [offset for offset, _, _ in found]
        expect(offsets == sorted(set(offsets)), f"{client} read out of order or twice: {offsets}")
        expect(not offsets or offsets[0] >= begin, f"{client} began at {offsets[0]} and not at {begin}")
        for offset, key, value in found:
            expect(self.records[offset] == (key, value), f"{client} read {key} and {value} at {offset}, not {self.records[offset]}")
        there = set(offsets)
        for key, (offset, value) in self.newest().items():
            expect(value is None or offset < begin or offset in there, f"{client} did not read {key} at {offset}")

    def settled(self):
        """How many keys have a value, and so how many records are there in the end."""
        return sum(value is not None for _, value in self.newest().values())


def batches(round):
    """Two batches: keys that each round changes, one that it alone writes, and one that the next round takes away."""
    changing = [(f"key {key}", f"{round} " * (key % 5 + 1)) for key in range(20)]
    return [
        [(f"only {round}", f"{round}"), *changing[:10], (f"going {round}", f"{round}")],
        [*changing[10:], (f"going {round - 1}", None)],
    ]


def write_by_librdkafka(bootstrap, written, codec, batch):
    producer = Producer({
        "bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 50, "enable.idempotence": True,
    })
    failed = []
    for key, value in batch:
        producer.produce(TOPIC, value, key, 0, on_delivery=lambda error, _: error and failed.append(error))
    expect(producer.flush(SECONDS_MAX) == 0 and not failed, failed)
    written.records += batch


def write_by_kafka_python(producers, bootstrap, written, codec, batch):
    if codec not in producers:
        compression = None if codec == "none" else codec
        producers[codec] = KafkaProducer(bootstrap_servers=bootstrap, compression_type=compression, linger_ms=50)
    sent = [producers[codec].send(TOPIC, None if value is None else value.encode(), key.encode(), partition=0) for key, value in batch]
    producers[codec].flush(SECONDS_MAX)
    for future in sent:
        future.get(SECONDS_MAX)
    written.records += batch


def fill(producer):
    """Has what was written so far lie where it can be compacted, in segments of which most is of no use."""
    failed = []
    for _ in range(40):
        producer.produce(FILLER, bytes(4000), "same", 0, on_delivery=lambda error, _: error and failed.append(error))
    expect(producer.flush(SECONDS_MAX) == 0 and not failed, f"the filler is not delivered: {failed[:1]}")


def run(bootstrap, clients):
    admin = AdminClient({"bootstrap.servers": bootstrap})
    config = {"cleanup.policy": "compact", "delete.retention.ms": str(TOLD_MS)}
    for created in admin.create_topics([NewTopic(name, 1, config=config) for name in [TOPIC, FILLER]]).values():
        created.result(SECONDS_MAX)
    # A batch has to fit into a segment of the example.
    filler = Producer({"bootstrap.servers": bootstrap, "batch.size": 16_000})
    written, producers = Written(), {}
    for round in range(ROUNDS):
        codec = CODECS[round % len(CODECS)]
        first, second = batches(round)
        write_by_librdkafka(bootstrap, written, codec, first)
        write_by_kafka_python(producers, bootstrap, written, codec, second)
        fill(filler)
        if round % 5 == 4:
            for client, read in clients.items():
                written.check(client, read(bootstrap, 0, len(written.records)))
    for producer in producers.values():
        producer.close()
    # The last batch of a partition stays as it is; so it is one record.
    write_by_librdkafka(bootstrap, written, "none", [("last", "stays")])
    end, until = len(written.records), time.monotonic() + 3 * SECONDS_MAX
    while True:
        fill(filler)
        found = read_by_librdkafka(bootstrap, 0, end)
        written.check("librdkafka", found)
        tombstones = sum(value is None for _, _, value in found)
        if len(found) == written.settled():
            break
        expect(time.monotonic() < until, f"{len(found)} records are left, {tombstones} of them without a value, where {written.settled()} have to be")
    holes = sorted(set(range(end)) - {offset for offset, _, _ in found})
    begins = [0, holes[0], holes[len(holes) // 2], holes[-1], end - 1]
    for client, read in clients.items():
        for begin in begins:
            again = read(bootstrap, begin, end)
            written.check(client, again, begin)
            expected = [record for record in found if record[0] >= begin]
            expect(again == expected, f"{client} read {again} from {begin}, where {expected} is")
    print(f"{end} records written, {len(found)} left of them; read from {len(begins)} offsets by {', '.join(clients)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("compacting", type=pathlib.Path, help="the example of this name of quire-kafka")
    parser.add_argument(
        "--reader", action="append", nargs=2, default=[], metavar=("CLIENT", "COMMAND"), help="a program that reads by another client",
    )
    options = parser.parse_args()
    clients = {"librdkafka": read_by_librdkafka, "kafka-python": read_by_kafka_python}
    clients |= {client: read_by_program(shlex.split(command)) for client, command in options.reader}
    with tempfile.TemporaryDirectory() as directory:
        server = subprocess.Popen([options.compacting, directory, "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
        try:
            run(server.stdout.readline().split()[-1], clients)
        finally:
            server.kill()
            server.wait()


if __name__ == "__main__":
    main()
