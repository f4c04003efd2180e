"""What disturbs clients: a server that is killed while a group shares its partitions anew, topics that are deleted and made again
under a producer, and records that go before they were read.

Starts `quire serve` on a directory of its own. Whatever happens, clients go on by themselves, nothing that was acknowledged is
missing, and nothing is read again that had been committed.
"""

import argparse
import functools
import json
import pathlib
import random
import tempfile
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer
from kafka import TopicPartition as Place

from checks import SECONDS_MAX, expect, until
from groups import Members, check
from killed import Server

QUIET = {"log_level": 2, "reconnect.backoff.max.ms": 200}


@functools.cache
def admin(bootstrap):
    """One for a server: a client that is dropped drops its requests."""
    return AdminClient({"bootstrap.servers": bootstrap, **QUIET})


def create(bootstrap, topic, partitions=1):
    admin(bootstrap).create_topics([NewTopic(topic, partitions)])[topic].result(SECONDS_MAX)


class Numbers:
    """An idempotent producer of numbered messages, and what became of each."""

    def __init__(self, bootstrap, topic, **settings):
        self.topic = topic
        self.producer = Producer({
            "bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 2, "message.timeout.ms": 120000, **QUIET, **settings,
        })
        self.sent = 0
        self.acknowledged = {}
        self.failed = []

    def send(self, count, partition=0):
        def told(number):
            return lambda error, message: self.failed.append(error) if error else self.acknowledged.update({number: message.offset()})

        for _ in range(count):
            self.producer.produce(self.topic, str(self.sent), partition=partition, on_delivery=told(self.sent))
            self.sent += 1
        self.producer.poll(0)

    def flush(self):
        expect(self.producer.flush(60) == 0, "not everything was answered")


def a_group_that_shares_anew_while_the_server_is_killed_loses_nothing(server, folder):
    bootstrap, topic = server.address(), "groups"
    create(bootstrap, topic, 30)
    members = Members(bootstrap, folder)
    numbers = [0] * 30
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "message.timeout.ms": 120000, **QUIET})
    failed = []
    try:
        for _ in range(3):
            members.start()
        for _ in range(6):
            ends = time.monotonic() + random.uniform(0.5, 2)
            while time.monotonic() < ends:
                for partition in range(30):
                    value = json.dumps([partition, numbers[partition]])
                    producer.produce(topic, value, partition=partition, on_delivery=lambda error, _: error and failed.append(error))
                    numbers[partition] += 1
                producer.poll(0.02)
            # A member comes or goes, and the server dies a moment later, wherever the group is with it by then.
            members.start() if len(members.running) < 4 else members.kill()
            time.sleep(random.uniform(0, 0.4))
            server.kill()
            server.start()
        expect(producer.flush(60) == 0 and not failed, failed[:3])
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", **QUIET})
        places = [TopicPartition(topic, partition) for partition in range(30)]

        def all_committed():
            try:
                return [place.offset for place in consumer.committed(places, 10)] == numbers or None
            except KafkaException:
                return None

        until(all_committed, "the group had committed everything")
        consumer.close()
    finally:
        while members.running:
            members.kill()
    again = check(members, numbers)
    return f"{sum(numbers)} messages, 6 kills of the server, {again} read again, none of them committed"


def a_topic_that_is_deleted_and_made_again_takes_what_its_producer_goes_on_with(server, _):
    bootstrap, topic = server.address(), "again"
    create(bootstrap, topic)
    # Its own view of topics has to notice the other one.
    numbers = Numbers(bootstrap, topic, **{"topic.metadata.refresh.interval.ms": 200, "message.timeout.ms": 20000})
    for _ in range(4):
        numbers.send(500)
        numbers.producer.poll(0.05)
        admin(bootstrap).delete_topics([topic])[topic].result(SECONDS_MAX)
        # The name is free at once, and asking for the topic may have made it already.
        try:
            create(bootstrap, topic)
        except KafkaException as error:
            expect(error.args[0].name() == "TOPIC_ALREADY_EXISTS", error)
        numbers.send(500)
        numbers.flush()
    before = len(numbers.acknowledged)
    numbers.send(1000)
    numbers.flush()
    expect(len(numbers.acknowledged) == before + 1000, f"of the last 1000, {len(numbers.acknowledged) - before} are acknowledged: {numbers.failed[-1:]}")
    low, high = Consumer({"bootstrap.servers": bootstrap, "group.id": "none"}).get_watermark_offsets(TopicPartition(topic, 0), SECONDS_MAX)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, low)])
    values = []
    until(lambda: values.extend(it for it in consumer.consume(1000, 1) if it.error() is None) or (len(values) >= high - low) or None, "all was read")
    consumer.close()
    found = [int(message.value()) for message in values]
    expect(found == sorted(set(found)), "a message is there twice, or in another order")
    last = range(numbers.sent - 1000, numbers.sent)
    expect(found[-1000:] == list(last), f"the last 1000 are {found[-1000:][:3]} to {found[-1:]}")
    return f"{numbers.sent} sent, {len(numbers.acknowledged)} acknowledged, {len(numbers.failed)} failed with their topic"


def who_is_overtaken_by_deletion_goes_on_where_the_partition_begins(server, _):
    bootstrap, topic = server.address(), "overtaken"
    create(bootstrap, topic, 2)
    # In batches of ten: a client that wants little gets little.
    numbers = Numbers(bootstrap, topic, **{"batch.num.messages": 10})
    for partition in [0, 1]:
        numbers.send(1000, partition)
    numbers.flush()
    # In a fetch session: the other partition goes on being fetched in it.
    python = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False, max_poll_records=50, max_partition_fetch_bytes=500)
    python.assign([Place(topic, 0), Place(topic, 1)])
    rdkafka = Consumer({
        "bootstrap.servers": bootstrap, "group.id": "overtaken", "auto.offset.reset": "earliest", "enable.auto.commit": False,
        "max.partition.fetch.bytes": 500, "queued.min.messages": 1, "fetch.queue.backoff.ms": 5, **QUIET,
    })
    rdkafka.assign([TopicPartition(topic, 0, 0), TopicPartition(topic, 1, 0)])
    read = {"python": {0: [], 1: []}, "rdkafka": {0: [], 1: []}}

    def more_by_python():
        for place, batch in python.poll(10).items():
            read["python"][place.partition] += [record.offset for record in batch]

    def more_by_rdkafka():
        for message in rdkafka.consume(50, 0.01):
            expect(message.error() is None, message.error())
            read["rdkafka"][message.partition()].append(message.offset())

    def is_at_its_end(places):
        return places[0][-1:] == [999] == places[1][-1:]

    # One after the other, so that neither comes far while the other begins.
    until(lambda: more_by_python() or read["python"][0] or None, "kafka-python had begun")
    until(lambda: more_by_rdkafka() or read["rdkafka"][0] or None, "librdkafka had begun")
    place = TopicPartition(topic, 0, 900)
    admin(bootstrap).delete_records([place])[place].result(SECONDS_MAX)
    until(lambda: more_by_python() or is_at_its_end(read["python"]) or None, "kafka-python came to the end")
    until(lambda: more_by_rdkafka() or is_at_its_end(read["rdkafka"]) or None, "librdkafka came to the end")
    for client, places in read.items():
        expect(places[1] == list(range(1000)), f"{client} read the other partition with a gap")
        jumps = [(one, two) for one, two in zip(places[0], places[0][1:]) if two != one + 1]
        expect(len(jumps) == 1 and jumps[0][1] == 900, f"{client} jumped {jumps}")
    python.close()
    rdkafka.close()
    jumped = {client: len(places[0]) for client, places in read.items()}
    return f"of 1000 messages, of which 900 went, {jumped} were read"


CHECKS = [
    a_group_that_shares_anew_while_the_server_is_killed_loses_nothing,
    a_topic_that_is_deleted_and_made_again_takes_what_its_producer_goes_on_with,
    who_is_overtaken_by_deletion_goes_on_where_the_partition_begins,
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("quire", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    random.seed(options.seed)
    print(f"disturbed.py --seed {options.seed}", flush=True)
    for disturbance in CHECKS:
        with tempfile.TemporaryDirectory() as directory:
            server = Server(options.quire, pathlib.Path(directory))
            server.start()
            try:
                found = disturbance(server, pathlib.Path(directory))
            finally:
                server.kill()
        print(f"ok      {disturbance.__name__.replace('_', ' ')}: {found}", flush=True)


if __name__ == "__main__":
    main()
