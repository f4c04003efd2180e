"""SASL by clients that we did not write: confluent-kafka, kafka-python and, if given, Kafka's Java client.

Starts a server with access control (the example `authenticated`). Each client produces and reads with each mechanism and
each credential, and is refused with a wrong password, as an unknown user and with a wrong token.
"""

import argparse
import logging
import pathlib
import shlex
import subprocess
import tempfile
import time

import confluent_kafka
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as Place
from kafka.admin import KafkaAdminClient
from kafka.admin import NewTopic as PythonTopic
from kafka.errors import KafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider

from checks import SECONDS_MAX, expect

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
TOKEN_SECONDS = 3_600
VALUES = [f"value {number}" for number in range(100)]


class Server:
    """The example, on a free port; the credentials that it prints."""

    def __init__(self, program):
        self.directory = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen([program, self.directory.name, "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
        told = {}
        for line in self.process.stdout:
            name, *words = line.split()
            told[name] = words
            if name == "Kafka":
                break
        self.bootstrap = told["Kafka"][-1]
        self.password = " ".join(told["password"])
        self.key = told["key"]
        self.token = told["token"][0]
        self.tls = told["tls"]

    def credentials(self, mechanism):
        """Each user and password that a mechanism takes."""
        passwords = [("ann", self.password)]
        return passwords + [tuple(self.key), ("ann", self.key[1])] if mechanism == "PLAIN" else passwords

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(SECONDS_MAX)
        self.directory.cleanup()


def librdkafka_settings(server, mechanism, user, password):
    return {
        "bootstrap.servers": server.bootstrap, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": mechanism,
        "sasl.username": user, "sasl.password": password,
    }


def librdkafka_with_token(server, token):
    return {
        "bootstrap.servers": server.bootstrap, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "OAUTHBEARER",
        "oauth_cb": lambda _: (token, time.time() + TOKEN_SECONDS),
    }


def librdkafka_round(settings, topic):
    administrator = AdminClient(settings)  # A client that is dropped drops its requests.
    administrator.create_topics([NewTopic(topic, 1)])[topic].result(SECONDS_MAX)
    producer = Producer(settings)
    for value in VALUES:
        producer.produce(topic, value)
    expect(not producer.flush(SECONDS_MAX), "messages are not delivered")
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    read, until = [], time.monotonic() + SECONDS_MAX
    while len(read) < len(VALUES):
        expect(time.monotonic() < until, f"{len(read)} messages were read")
        read += [message.value().decode() for message in consumer.consume(len(VALUES), 1) if not message.error()]
    consumer.close()
    expect(read == VALUES, "other messages were read")


def librdkafka_is_refused(settings):
    errors = []
    client = Producer({**settings, "error_cb": errors.append})
    until = time.monotonic() + SECONDS_MAX
    while not any(error.code() == confluent_kafka.KafkaError._AUTHENTICATION for error in errors):
        expect(time.monotonic() < until, f"no error of authentication, but {errors}")
        client.poll(0.1)


def python_settings(server, mechanism, user, password):
    return {
        "bootstrap_servers": server.bootstrap, "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism,
        "sasl_plain_username": user, "sasl_plain_password": password,
    }


class TokenProvider(AbstractTokenProvider):
    """A token for kafka-python."""

    def __init__(self, token):
        super().__init__()
        self._token = token

    def token(self):
        return self._token


def python_with_token(server, token):
    return {
        "bootstrap_servers": server.bootstrap, "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": TokenProvider(token),
    }


def python_round(settings, topic):
    administrator = KafkaAdminClient(**settings)
    administrator.create_topics([PythonTopic(topic, 1, 1)])
    administrator.close()
    producer = KafkaProducer(**settings)
    sent = [producer.send(topic, value.encode()) for value in VALUES]
    producer.flush(SECONDS_MAX)
    [future.get(SECONDS_MAX) for future in sent]
    producer.close()
    consumer = KafkaConsumer(auto_offset_reset="earliest", enable_auto_commit=False, **settings)
    consumer.assign([Place(topic, 0)])
    read, until = [], time.monotonic() + SECONDS_MAX
    while len(read) < len(VALUES):
        expect(time.monotonic() < until, f"{len(read)} messages were read")
        read += [record.value.decode() for records in consumer.poll(1000).values() for record in records]
    consumer.close()
    expect(read == VALUES, "other messages were read")


def python_is_refused(settings):
    told = []
    handler = logging.Handler()
    handler.emit = lambda record: told.append(record.getMessage())
    logging.getLogger("kafka").addHandler(handler)
    try:
        KafkaConsumer(bootstrap_timeout_ms=4000, **settings).close()
    except KafkaError as error:
        # It tries again until its time is over, and reports why in its log only.
        expect(any("authentication failed" in line for line in told), f"no error of authentication, but {error!r}, {told}")
    else:
        expect(False, "a wrong password is accepted")
    finally:
        logging.getLogger("kafka").removeHandler(handler)


CLIENTS = [
    ("librdkafka", librdkafka_settings, librdkafka_with_token, librdkafka_round, librdkafka_is_refused),
    ("kafka-python", python_settings, python_with_token, python_round, python_is_refused),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="the example `authenticated`")
    parser.add_argument("--java", help="a command that runs the Java client, without its arguments")
    parser.add_argument("--acls", help="a command that runs Kafka's tools for ACLs, passwords and quotas, without its arguments")
    arguments = parser.parse_args()
    program = pathlib.Path(arguments.program).resolve()
    for name, settings, with_token, round_trip, is_refused in CLIENTS:
        for mechanism in MECHANISMS:
            # A server of its own: each failure of an address makes the pause after the next one longer.
            with Server(program) as server:
                for number, (user, password) in enumerate(server.credentials(mechanism)):
                    round_trip(settings(server, mechanism, user, password), f"{name}-{mechanism}-{number}")
                is_refused(settings(server, mechanism, "ann", "wrong"))
                is_refused(settings(server, mechanism, "nobody", server.password))
            print(f"ok      {name} authenticates with {mechanism}", flush=True)
        with Server(program) as server:
            round_trip(with_token(server, server.token), f"{name}-token")
            is_refused(with_token(server, server.token + "x"))
        print(f"ok      {name} authenticates with OAUTHBEARER", flush=True)
    if arguments.java:
        with Server(program) as server:
            subprocess.run([*shlex.split(arguments.java), server.bootstrap, server.password, *server.key, server.token], check=True)
    if arguments.acls:
        with Server(program) as server:
            subprocess.run([*shlex.split(arguments.acls), server.bootstrap, *server.tls, *server.key], check=True)
    print(f"SASL: {len(CLIENTS)} clients")


if __name__ == "__main__":
    main()
