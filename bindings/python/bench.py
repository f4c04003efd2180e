"""Appends events one by one with durability `os`, and prints how many per second.

    python bench.py [EVENTS] [ROUNDS]

The rounds alternate between the payloads. The load of the machine is printed with each.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable

import quire


def measure(name: str, events: int, append: Callable[[quire.EventStore], object]) -> float:
    with tempfile.TemporaryDirectory() as directory, quire.open(directory + "/data", sync="os") as db:
        store = db.store("events")
        append(store)
        begun, cpu = time.perf_counter(), time.process_time()
        for _ in range(events):
            append(store)
        rate, cpu = events / (time.perf_counter() - begun), time.process_time() - cpu
        assert store.head() == events + 1
    print(f"{name:24} {rate:10,.0f}/s {cpu / events * 1e6:6.2f} µs CPU each, load {os.getloadavg()[0]:.1f}")
    return rate


def main() -> None:
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    payload = b"x" * 100
    tags = ["order:17"]
    loads: dict[str, Callable[[quire.EventStore], object]] = {
        "100 bytes": lambda store: store.append("Placed", payload),
        "100 bytes, one tag": lambda store: store.append("Placed", payload, tags=tags),
        "JSON of one field": lambda store: store.append("Placed", {"order": 17}),
    }
    best: dict[str, float] = {}
    for _ in range(rounds):
        for name, append in loads.items():
            best[name] = max(best.get(name, 0), measure(name, events, append))
    for name, rate in best.items():
        print(f"best of {rounds}: {name:24} {rate:10,.0f}/s")


if __name__ == "__main__":
    main()
