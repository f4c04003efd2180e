"""TLS, ACLs and SCRAM credentials by clients that we did not write.

Starts a server with access control and TLS (the example `authenticated`). confluent-kafka and kafka-python authenticate
over TLS and refuse a certificate of an unknown authority. They create, describe and delete ACLs as the public tests of both
do, and an ACL gives and takes a right. confluent-kafka changes the password of a user. openssl checks the handshake.
"""

import argparse
import pathlib
import subprocess
import tempfile

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding, AclBindingFilter, AclOperation, AclPermissionType, AdminClient, NewTopic, ResourcePatternType, ResourceType,
    ScramCredentialInfo, ScramMechanism, UserScramCredentialDeletion, UserScramCredentialUpsertion,
)
from confluent_kafka import KafkaError, KafkaException
from kafka import KafkaProducer
from kafka.admin import (
    ACL, ACLFilter, ACLOperation, ACLPermissionType, ACLResourcePatternType, KafkaAdminClient, ResourcePattern,
    ResourceType as PythonResourceType,
)
from kafka.errors import KafkaError as PythonError
from kafka.errors import NoError, TopicAuthorizationFailedError

from checks import SECONDS_MAX, expect, until
from sasl import Server, librdkafka_is_refused, librdkafka_round, python_round


def librdkafka_over_tls(server, mechanism, user, password):
    address, certificate = server.tls
    return {
        "bootstrap.servers": address, "security.protocol": "SASL_SSL", "ssl.ca.location": certificate,
        "sasl.mechanisms": mechanism, "sasl.username": user, "sasl.password": password,
    }


def python_over_tls(server, mechanism, user, password):
    address, certificate = server.tls
    return {
        "bootstrap_servers": address, "security_protocol": "SASL_SSL", "ssl_cafile": certificate,
        "sasl_mechanism": mechanism, "sasl_plain_username": user, "sasl_plain_password": password,
    }


def other_authority(directory):
    """A certificate that is not the server's."""
    certificate = pathlib.Path(directory) / "other.pem"
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=other"]
    subprocess.run(
        ["openssl", "req", *kind, "-out", certificate, "-keyout", pathlib.Path(directory) / "other.key"],
        check=True, capture_output=True,
    )
    return str(certificate)


def over_tls(server):
    """Each client produces and reads over TLS, and trusts no other authority."""
    for number, (mechanism, user, password) in enumerate([
        ("PLAIN", *server.key), ("PLAIN", "ann", server.password), ("SCRAM-SHA-256", "ann", server.password),
        ("SCRAM-SHA-512", "ann", server.password),
    ]):
        librdkafka_round(librdkafka_over_tls(server, mechanism, user, password), f"librdkafka-tls-{number}")
        python_round(python_over_tls(server, mechanism, user, password), f"python-tls-{number}")
    with tempfile.TemporaryDirectory() as directory:
        other = other_authority(directory)
        errors = []
        settings = {**librdkafka_over_tls(server, "PLAIN", *server.key), "ssl.ca.location": other, "error_cb": errors.append}
        client = Producer(settings)

        def refused():
            client.poll(0.1)
            return next((error for error in errors if error.code() == KafkaError._SSL), None)

        until(refused, "librdkafka refused the certificate")
        settings = {**python_over_tls(server, "PLAIN", *server.key), "ssl_cafile": other}
        try:
            KafkaProducer(bootstrap_timeout_ms=3000, **settings).close()
        except PythonError:
            pass
        else:
            expect(False, "kafka-python accepted the certificate")


def librdkafka_acls(server):
    """After the public test of confluent-kafka-python: create, create again, describe, delete by filter."""
    admin = AdminClient(librdkafka_over_tls(server, "PLAIN", *server.key))
    bindings = [
        AclBinding(ResourceType.TOPIC, "acls", ResourcePatternType.LITERAL, "User:bob", "*", AclOperation.WRITE, AclPermissionType.ALLOW),
        AclBinding(ResourceType.TOPIC, "acls", ResourcePatternType.PREFIXED, "User:bob", "*", AclOperation.READ, AclPermissionType.ALLOW),
        AclBinding(ResourceType.GROUP, "acls", ResourcePatternType.PREFIXED, "User:*", "*", AclOperation.ALL, AclPermissionType.DENY),
    ]
    for _ in range(2):
        for created in admin.create_acls(bindings, request_timeout=SECONDS_MAX).values():
            expect(created.result(SECONDS_MAX) is None, "an ACL is not created")

    def described(kind, pattern, principal):
        wanted = AclBindingFilter(kind, None, pattern, principal, None, AclOperation.ANY, AclPermissionType.ANY)
        return admin.describe_acls(wanted, request_timeout=SECONDS_MAX).result(SECONDS_MAX)

    for kind, pattern, principal, expected in [
        (ResourceType.ANY, ResourcePatternType.ANY, "User:bob", bindings[:2]),
        (ResourceType.TOPIC, ResourcePatternType.PREFIXED, None, bindings[1:2]),
        (ResourceType.GROUP, ResourcePatternType.ANY, None, bindings[2:]),
    ]:
        found = described(kind, pattern, principal)
        expect(sorted(found) == sorted(expected), f"described are {found}")
    wanted = AclBindingFilter(ResourceType.TOPIC, "acls", ResourcePatternType.MATCH, None, None, AclOperation.ANY, AclPermissionType.ANY)
    deleted = admin.delete_acls([wanted], request_timeout=SECONDS_MAX)[wanted].result(SECONDS_MAX)
    expect(sorted(deleted) == sorted(bindings[:2]), f"deleted are {deleted}")
    expect(described(ResourceType.ANY, ResourcePatternType.ANY, "User:bob") == [], "ACLs are left")
    wanted = AclBindingFilter(ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY)
    deleted = admin.delete_acls([wanted], request_timeout=SECONDS_MAX)[wanted].result(SECONDS_MAX)
    expect(deleted == bindings[2:], f"deleted are {deleted}")


def python_acls(server):
    """After the public test of kafka-python: create, describe, delete, describe."""
    admin = KafkaAdminClient(**python_over_tls(server, "PLAIN", *server.key))
    pattern = ResourcePattern(PythonResourceType.TOPIC, "python-acls")
    acl = ACL("User:test", "*", ACLOperation.ALL, ACLPermissionType.ALLOW, pattern)
    result = admin.create_acls([acl])
    expect(len(result["succeeded"]) == 1 and not result["failed"], f"created are {result}")
    wanted = ACLFilter("User:test", "*", ACLOperation.ANY, ACLPermissionType.ANY, pattern)
    found, error = admin.describe_acls(wanted)
    expect(error is NoError and found == [acl], f"described are {found}, {error}")
    [(_, deleted, error)] = admin.delete_acls([wanted])
    expect(error is NoError and len(deleted) == 1, f"deleted are {deleted}, {error}")
    found, error = admin.describe_acls(wanted)
    expect(error is NoError and found == [], f"described are {found}, {error}")
    admin.close()


def an_acl_counts(server):
    """A user may write once an ACL permits it, and no longer once another denies it."""
    root = librdkafka_over_tls(server, "PLAIN", *server.key)
    admin = AdminClient(root)
    admin.create_topics([NewTopic("counted", 1)])["counted"].result(SECONDS_MAX)
    password = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    change = UserScramCredentialUpsertion("bob", password, b"a password of bob")
    admin.alter_user_scram_credentials([change])["bob"].result(SECONDS_MAX)
    described = admin.describe_user_scram_credentials(["bob"])["bob"].result(SECONDS_MAX)
    expect([info.iterations for info in described.scram_credential_infos] == [4096], f"described are {described}")
    bob = librdkafka_over_tls(server, "SCRAM-SHA-256", "bob", "a password of bob")

    def produced():
        errors = []
        producer = Producer({**bob, "message.timeout.ms": 10_000})
        producer.produce("counted", "value", on_delivery=lambda error, _: errors.append(error))
        producer.flush(SECONDS_MAX)
        [error] = errors
        return error.code() if error else None

    def add(permission):
        binding = AclBinding(
            ResourceType.TOPIC, "counted", ResourcePatternType.LITERAL, "User:bob", "*", AclOperation.WRITE, permission
        )
        admin.create_acls([binding])[binding].result(SECONDS_MAX)

    expect(produced() == KafkaError.TOPIC_AUTHORIZATION_FAILED, "bob writes without an ACL")
    add(AclPermissionType.ALLOW)
    expect(produced() is None, "bob can not write")
    producer = KafkaProducer(**python_over_tls(server, "SCRAM-SHA-256", "bob", "a password of bob"))
    producer.send("counted", b"value").get(SECONDS_MAX)
    add(AclPermissionType.DENY)
    expect(produced() == KafkaError.TOPIC_AUTHORIZATION_FAILED, "bob writes against a denial")
    try:
        producer.send("counted", b"value").get(SECONDS_MAX)
    except TopicAuthorizationFailedError:
        pass
    else:
        expect(False, "an open connection writes against a denial")
    producer.close(timeout=1)
    user = KafkaAdminClient(**python_over_tls(server, "SCRAM-SHA-256", "bob", "a password of bob"))
    result = user.create_acls([ACL("User:bob", "*", ACLOperation.ALL, ACLPermissionType.ALLOW, ResourcePattern(PythonResourceType.CLUSTER, "kafka-cluster"))])
    expect(not result["succeeded"] and len(result["failed"]) == 1, f"bob gives himself rights: {result}")
    user.close()
    admin.alter_user_scram_credentials([UserScramCredentialDeletion("bob", ScramMechanism.SCRAM_SHA_256)])["bob"].result(SECONDS_MAX)
    librdkafka_is_refused(bob)


def handshake(server):
    """What openssl says of the listener: TLS 1.2 and 1.3, a verified certificate, and nothing older."""
    address, certificate = server.tls

    def connect(*options):
        command = ["openssl", "s_client", "-connect", address, "-CAfile", certificate, "-verify_return_error", *options]
        return subprocess.run(command, input="", capture_output=True, text=True, timeout=SECONDS_MAX)

    for option, name in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")]:
        done = connect(option)
        expect("Verify return code: 0 (ok)" in done.stdout and name in done.stdout, f"{option}: {done.stdout}{done.stderr}")
    for options in [["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], ["-tls1", "-cipher", "ALL:@SECLEVEL=0"]]:
        done = connect(*options)
        expect(done.returncode != 0 and "Cipher is (NONE)" in done.stdout, f"{options}: {done.stdout}{done.stderr}")
    done = connect("-tls1_3", "-alpn", "h2")
    expect("ALPN protocol: h2" not in done.stdout, f"Kafka negotiates h2: {done.stdout}")


CHECKS = [over_tls, librdkafka_acls, python_acls, an_acl_counts, handshake]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="the example `authenticated`")
    program = pathlib.Path(parser.parse_args().program).resolve()
    for check in CHECKS:
        with Server(program) as server:
            check(server)
        print(f"ok      {check.__name__.replace('_', ' ')}", flush=True)


if __name__ == "__main__":
    main()
