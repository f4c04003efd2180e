"""A server that is killed under load keeps what it acknowledged, once and in order.

Starts `quire serve` on a directory of its own, produces with an idempotent producer, kills the server with SIGKILL again and
again and starts it anew, while the producer goes on. In the end every message is there once, in order, with no gap.
"""

import argparse
import pathlib
import random
import signal
import socket
import subprocess
import tempfile
import time

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

TOPIC = "killed"
PARTITIONS = 3


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """The server process, on one port and one directory."""

    def __init__(self, quire, directory):
        self.port = free_port()
        self.log = open(directory / "server.log", "a")
        self.arguments = [quire, "serve", "--data", directory / "data", "--durability", "sync"]
        self.arguments += ["--kafka", f"127.0.0.1:{self.port}", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]
        self.process = None

    def address(self):
        return f"127.0.0.1:{self.port}"

    def start(self):
        self.process = subprocess.Popen(self.arguments, stdout=self.log, stderr=self.log)
        until = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert self.process.poll() is None and time.monotonic() < until, "the server does not start"
                time.sleep(0.02)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("quire", type=pathlib.Path)
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    random.seed(options.seed)
    print(f"killed.py --seed {options.seed} --kills {options.kills}", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        server = Server(options.quire, pathlib.Path(directory))
        server.start()
        try:
            run(server, options.kills)
        finally:
            server.kill()


def run(server, kills):
    bootstrap = server.address()
    acknowledged = [[] for _ in range(PARTITIONS)]
    failed = []

    def delivered(error, message):
        if error is None:
            acknowledged[message.partition()].append((message.offset(), int(message.value())))
        else:
            failed.append(error)

    producer = Producer({
        "bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 1, "batch.num.messages": 50,
        "reconnect.backoff.max.ms": 200, "message.timeout.ms": 120000, "on_delivery": delivered,
        # Or else it tells of every connection that the server's end has closed.
        "log_level": 2,
    })
    sent = [0] * PARTITIONS
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result()
    del admin
    for _ in range(kills):
        until = time.monotonic() + random.uniform(0.5, 1.5)
        while time.monotonic() < until:
            for partition in range(PARTITIONS):
                producer.produce(TOPIC, str(sent[partition]), partition=partition)
                sent[partition] += 1
            producer.poll(0.001)
        server.kill()
        server.start()
    left = producer.flush(60)
    assert left == 0 and not failed, f"{left} messages are not delivered, and {failed[:3]} failed"

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "check", "enable.auto.commit": False})
    for partition in range(PARTITIONS):
        low, high = consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), 10)
        assert (low, high) == (0, sent[partition]), f"partition {partition} holds {low} to {high} of {sent[partition]}"
        consumer.assign([TopicPartition(TOPIC, partition, 0)])
        values = []
        until = time.monotonic() + 60
        while len(values) < sent[partition]:
            assert time.monotonic() < until, f"partition {partition} ends at {len(values)} of {sent[partition]}"
            values += [int(message.value()) for message in consumer.consume(1000, 1) if message.error() is None]
        assert values == list(range(sent[partition])), f"partition {partition} is out of order"
        for offset, value in acknowledged[partition]:
            assert values[offset] == value, f"{value} was acknowledged at {offset}, where {values[offset]} is"
    consumer.close()
    print(f"{sum(sent)} messages, {kills} kills: each there once, in order, where it was acknowledged")


if __name__ == "__main__":
    main()
