"""What the scripts for the clients share: checks whose names are sentences, run one after the other."""

import argparse
import time

# Generous: they bound how long a broken server can hang the run, not how fast a good one is.
SECONDS_MAX = 30

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


class Failed(Exception):
    """A check does not hold."""


def expect(holds, message):
    if not holds:
        raise Failed(message)


def until(found, what):
    """Asks again and again until there is an answer that is not None."""
    deadline = time.monotonic() + SECONDS_MAX
    while (answer := found()) is None:
        expect(time.monotonic() < deadline, f"{SECONDS_MAX} s passed before {what}")
    return answer


def run(client, checks):
    """Runs the checks against a server; the first that does not hold ends the run."""
    parser = argparse.ArgumentParser(description=f"Tries {client} on a running server.")
    parser.add_argument("bootstrap", help="where the server serves the Kafka protocol")
    bootstrap = parser.parse_args().bootstrap
    for check in checks:
        name = check.__name__.replace("_", " ")
        try:
            print(f"ok      {name}: {check(bootstrap)}", flush=True)
        except Exception as failure:
            print(f"FAILED  {name}: {type(failure).__name__}: {failure}", flush=True)
            raise
    print(f"{client}: {len(checks)} checks")
