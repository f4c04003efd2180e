"""A consumer group whose members are killed, by clients that we did not write, against a server that runs already.

An idempotent producer writes numbered messages to 30 partitions. Members of one group, each a process of its own, read them
and tell what they were assigned, read and committed; members are killed at random, and others started, meanwhile. In the end
every message was read, and no partition was ever begun before what had been committed in it by then: what is read twice is
only what was not committed.
"""

import argparse
import collections
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

TOPIC = "groups"
GROUP = "readers"
PARTITIONS = 30
MEMBERS = 5

# Generous: they bound how long a broken server can hang the run.
FLUSH_SECONDS_MAX = 30
READ_SECONDS_MAX = 60


def produce(bootstrap, seconds, meanwhile):
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
        meanwhile()
    left = producer.flush(FLUSH_SECONDS_MAX)
    assert left == 0 and not failed, f"{left} messages are not delivered, and {failed[:3]} failed"
    return numbers


def member(bootstrap):
    """Reads as a member until it is killed. Each line begins with the time, by a clock that all processes share."""

    def tell(what, *more):
        print(what, time.monotonic_ns(), *more, flush=True)

    def assigned(_, partitions):
        # Told before the member asks where the group goes on in them.
        for partition in partitions:
            tell("assigned", partition.partition)

    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": False,
        "session.timeout.ms": 6000, "heartbeat.interval.ms": 500,
        # Or else it tells of every connection that a server's end has closed.
        "log_level": 2,
    })
    consumer.subscribe([TOPIC], on_assign=assigned)
    while True:
        messages = [message for message in consumer.consume(200, 0.2) if message.error() is None]
        for message in messages:
            tell("read", message.partition(), message.offset(), message.value().decode())
        if not messages:
            continue
        try:
            for committed in consumer.commit(asynchronous=False):
                if committed.error is None:
                    tell("committed", committed.partition, committed.offset)
        except KafkaException as error:
            tell("refused", error.args[0].name())


class Members:
    """The processes of the members, and what they said."""

    def __init__(self, bootstrap, folder):
        self.bootstrap = bootstrap
        self.folder = folder
        self.running = []
        self.files = []

    def start(self):
        file = open(self.folder / f"member-{len(self.files)}", "w+")
        arguments = [sys.executable, __file__, self.bootstrap, "--member"]
        self.running.append(subprocess.Popen(arguments, stdout=file))
        self.files.append(file)

    def kill(self):
        victim = self.running.pop(random.randrange(len(self.running)))
        victim.kill()
        victim.wait()

    def lines(self):
        """By member, what it said: a list of what happened, when, and the rest."""
        for file in self.files:
            file.seek(0)
            # The last line of one that was killed may be cut.
            whole = [line for line in file.read().splitlines(keepends=True) if line.endswith("\n")]
            lines = [line.split(" ", 2) for line in whole]
            yield [(what, int(when), rest.split(" ", 2)) for what, when, rest in lines]


def check(members, numbers):
    """That nothing is lost, nothing out of order, and nothing read again that had been committed; says how much was."""
    committed = collections.defaultdict(list)
    for lines in members.lines():
        for what, when, rest in lines:
            if what == "committed":
                committed[int(rest[0])].append((when, int(rest[1])))
    read = collections.defaultdict(collections.Counter)
    for lines in members.lines():
        # By partition: where the member has to begin at the earliest, or which offset has to come next.
        earliest, following = {}, {}
        for what, when, rest in lines:
            partition = int(rest[0]) if what != "refused" else None
            if what == "assigned":
                earliest[partition] = max((offset for time, offset in committed[partition] if time < when), default=0)
                following.pop(partition, None)
            elif what == "read":
                offset = int(rest[1])
                assert json.loads(rest[2]) == [partition, offset], rest
                if partition in following:
                    assert offset == following[partition], f"{partition}: {offset} came where {following[partition]} was next"
                else:
                    begin = earliest[partition]
                    assert offset >= begin, f"{partition} was begun at {offset}, though {begin} had been committed"
                following[partition] = offset + 1
                read[partition][offset] += 1
    for partition, count in enumerate(numbers):
        missing = [offset for offset in range(count) if not read[partition][offset]]
        assert not missing, f"partition {partition} lost {missing[:5]} of {count}"
    return sum(sum(counts.values()) for counts in read.values()) - sum(numbers)


def committed_by(bootstrap):
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
    places = consumer.committed([TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)], 10)
    consumer.close()
    return [place.offset for place in places]


def run(options, members):
    admin = AdminClient({"bootstrap.servers": options.bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result()
    for _ in range(MEMBERS):
        members.start()
    kills, next_kill = 0, time.monotonic() + 4

    def kill_at_times():
        nonlocal kills, next_kill
        if time.monotonic() >= next_kill:
            members.kill()
            members.start()
            kills, next_kill = kills + 1, time.monotonic() + random.uniform(1, 5)

    try:
        numbers = produce(options.bootstrap, options.seconds, kill_at_times)
        until = time.monotonic() + READ_SECONDS_MAX
        while (committed := committed_by(options.bootstrap)) != numbers:
            assert time.monotonic() < until, f"not all is committed: {committed} of {numbers}"
            time.sleep(0.2)
    finally:
        while members.running:
            members.kill()
    again = check(members, numbers)
    print(f"{sum(numbers)} messages, {kills} of {MEMBERS} members killed: none lost, {again} read again, none of them committed")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--member", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.member:
        return member(options.bootstrap)
    random.seed(options.seed)
    print(f"groups.py --seed {options.seed} --seconds {options.seconds}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        run(options, Members(options.bootstrap, pathlib.Path(folder)))


if __name__ == "__main__":
    main()
