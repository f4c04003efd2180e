"""Consumer groups and idempotent producers, by clients that we did not write, against a server that runs already.

A producer with idempotence writes numbered messages to 30 partitions. Members of one group, each a process of its own, read
them and print what they read and what they commit; members are killed and started at random meanwhile. In the end every
message was read, in the order of its partition, and none was read again that had been committed before.
"""

import argparse
import collections
import json
import random
import subprocess
import sys
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

TOPIC = "groups"
GROUP = "readers"
PARTITIONS = 30
MEMBERS = 5


def produce(bootstrap, seconds, killed):
    """Produces until the time is up; says how many messages each partition has."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "compression.type": "lz4"})
    numbers = [0] * PARTITIONS
    failed = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for partition in range(PARTITIONS):
            value = json.dumps([partition, numbers[partition]])
            producer.produce(TOPIC, value, partition=partition, on_delivery=lambda error, _: error and failed.append(error))
            numbers[partition] += 1
        producer.poll(0.02)
        killed()
    left = producer.flush(30)
    assert left == 0 and not failed, f"{left} messages are not delivered, and {failed[:3]} failed"
    return numbers


def member(bootstrap):
    """Reads as a member until it is killed; tells what it read and, afterwards, what it committed."""
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": False,
        "session.timeout.ms": 6000, "heartbeat.interval.ms": 500,
    })
    consumer.subscribe([TOPIC])
    while True:
        messages = [message for message in consumer.consume(200, 0.2) if message.error() is None]
        for message in messages:
            print("read", message.partition(), message.offset(), message.value().decode(), flush=True)
        if not messages:
            continue
        try:
            for committed in consumer.commit(asynchronous=False):
                print("committed", committed.partition, committed.offset, flush=True)
        except KafkaException as error:
            print("refused", error.args[0].name(), flush=True)


class Members:
    """The processes of the members, and what they said."""

    def __init__(self, bootstrap):
        self.bootstrap = bootstrap
        self.running = []
        self.files = []

    def start(self):
        file = open(f"/tmp/quire-member-{len(self.files)}-{random.getrandbits(32):08x}", "w+")
        arguments = [sys.executable, __file__, self.bootstrap, "--member"]
        self.running.append(subprocess.Popen(arguments, stdout=file))
        self.files.append(file)

    def kill(self):
        victim = self.running.pop(random.randrange(len(self.running)))
        victim.kill()
        victim.wait()

    def lines(self):
        for file in self.files:
            file.seek(0)
            for line in file.read().splitlines(keepends=True):
                # The last line of one that was killed may be cut.
                if line.endswith("\n"):
                    yield line.split(" ", 3)


def read_by(members):
    """By partition: how often each offset was read, and up to where it was committed."""
    read, committed = collections.defaultdict(collections.Counter), collections.Counter()
    for line in members.lines():
        if line[0] == "read":
            partition, offset = int(line[1]), int(line[2])
            assert json.loads(line[3]) == [partition, offset], line
            read[partition][offset] += 1
        elif line[0] == "committed":
            committed[int(line[1])] = max(committed[int(line[1])], int(line[2]))
    return read, committed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--member", action="store_true")
    options = parser.parse_args()
    if options.member:
        return member(options.bootstrap)
    random.seed(options.seed)
    print(f"seed {options.seed}")

    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": options.bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result()
    members = Members(options.bootstrap)
    for _ in range(MEMBERS):
        members.start()
    kills, next_kill = 0, time.monotonic() + 4

    def kill():
        nonlocal kills, next_kill
        if time.monotonic() >= next_kill:
            members.kill()
            members.start()
            kills, next_kill = kills + 1, time.monotonic() + random.uniform(1, 5)

    try:
        numbers = produce(options.bootstrap, options.seconds, kill)
        until = time.monotonic() + 60
        while True:
            read, committed = read_by(members)
            if all(committed[partition] == count for partition, count in enumerate(numbers)):
                break
            assert time.monotonic() < until, f"not all is read: {dict(committed)} of {numbers}"
            time.sleep(0.2)
    finally:
        while members.running:
            members.kill()
    for partition, count in enumerate(numbers):
        missing = [offset for offset in range(count) if not read[partition][offset]]
        assert not missing, f"partition {partition} lost {missing[:5]}"
    consumer = Consumer({"bootstrap.servers": options.bootstrap, "group.id": GROUP})
    places = consumer.committed([TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)], 10)
    assert [place.offset for place in places] == numbers, places
    consumer.close()
    total = sum(numbers)
    again = sum(sum(counts.values()) for counts in read.values()) - total
    print(f"{total} messages, {kills} members killed: none lost, {again} read again that were not committed")


if __name__ == "__main__":
    main()
