"""A database for each test, in this process and behind a server.

The variable `QUIRE_PROGRAM` names the program `quire`. Without it, tests of servers are skipped.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import quire

PROGRAM = os.environ.get("QUIRE_PROGRAM", "")


def pytest_report_header() -> str:
    return f"quire: {PROGRAM}" if PROGRAM else "!!! SKIPPED the tests of servers: QUIRE_PROGRAM is not set"


class Server:
    """A server of a directory, which can be killed and started again at its address."""

    def __init__(self, directory: Path, listen: str = "127.0.0.1:0", *settings: str) -> None:
        self.directory, self.listen, self.settings = directory, listen, settings
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        assert self.process is None
        others = ["--kafka", "127.0.0.1:0", "--grpc", "127.0.0.1:0", *self.settings]
        command = [PROGRAM, "serve", "--data", str(self.directory), "--durability", "os", "--http", self.listen]
        self.process = subprocess.Popen([*command, *others], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if found := re.match(r"http +(\S+)", line):
                self.listen = found[1]
            if line.startswith("serving"):
                return
        raise RuntimeError(f"the server ended with {self.process.wait()}")

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None

    @property
    def address(self) -> str:
        return self.listen if self.listen.startswith("unix:") else f"http://{self.listen}"


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    if not PROGRAM:
        pytest.skip("QUIRE_PROGRAM is not set")
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(Server(tmp_path / "served")) as server:
        yield server


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[quire.Database]:
    with quire.open(tmp_path / "data", sync="os") as database:
        yield database


@pytest.fixture
def served(server: Server) -> Iterator[quire.Database]:
    with quire.connect(server.address) as database:
        yield database


@pytest.fixture(params=["embedded", "served"])
def db(request: pytest.FixtureRequest) -> quire.Database:
    """A database of each home: a program does not see the difference."""
    database = request.getfixturevalue(request.param)
    assert isinstance(database, quire.Database)
    return database
