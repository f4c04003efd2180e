"""Other processes: killed, forked and concurrent; and the examples."""

import os
import re
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import quire
from conftest import Server

PACKAGE = Path(__file__).parents[1]

APPENDS_FOR_EVER = """
import sys, quire
db = quire.open(sys.argv[1], sync=sys.argv[2])
while True:
    number = db.store("orders").head() + 1
    db.commit(quire.Commit().append("orders", "Placed", number).enqueue("charges", number).produce("placed", number))
    print(number, flush=True)
"""


@pytest.mark.parametrize("sync", ["os", "sync"])
def test_a_killed_process_keeps_every_acknowledged_commit_whole(tmp_path: Path, sync: str) -> None:
    path = tmp_path / "data"
    for _ in range(3):
        child = subprocess.Popen(
            [sys.executable, "-c", APPENDS_FOR_EVER, str(path), sync], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        acknowledged = 0
        for _ in range(30):
            acknowledged = int(child.stdout.readline())
        child.kill()
        acknowledged = max([acknowledged, *(int(line) for line in child.stdout if line.endswith("\n"))])
        assert child.wait() == -signal.SIGKILL
        with quire.open(path, sync="os") as db:
            events = db.store("orders").read()
            head = events.head
            assert head in (acknowledged, acknowledged + 1)
            assert [event.json() for event in events] == list(range(1, head + 1))
            stats = db.queue("charges").stats()
            assert stats is not None and stats["pending"] == head
            assert db.topic("placed").offsets() == (0, head)


def test_two_processes_share_a_directory(embedded: quire.Database, tmp_path: Path) -> None:
    code = "import sys, quire; print(quire.open(sys.argv[1], sync='os').store('s').append('Placed', 'theirs'))"
    subscription = embedded.store("s").subscribe()
    printed = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "data")], check=True, capture_output=True, text=True
    )
    assert printed.stdout == "1\n"
    assert next(subscription).text() == "theirs"


def test_the_child_of_a_fork_opens_the_directory_again(embedded: quire.Database, tmp_path: Path) -> None:
    store = embedded.store("s")
    store.append("Placed", "parent")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            store.append("Placed", "inherited")
        except quire.InUse:
            with quire.open(tmp_path / "data", sync="os") as own:
                own.store("s").append("Placed", "child")
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert [event.text() for event in store.read()] == ["parent", "child"]


def test_ctrl_c_ends_a_waiting_process(tmp_path: Path) -> None:
    # A process that was started in the background ignores the signal, and so do its children.
    code = "import signal, sys, quire; signal.signal(signal.SIGINT, signal.default_int_handler); "
    code += "s = quire.open(sys.argv[1]).store('s').subscribe(); print(1, flush=True); next(s)"
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "data")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "1\n"
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate()
    assert "KeyboardInterrupt" in errors and child.returncode != 0


EXAMPLE = PACKAGE.parents[1] / "examples/orders/orders.py"
PAGES = [PACKAGE / "README.md", PACKAGE.parents[1] / "docs/python.md"]


def test_the_example_of_the_orders_runs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(EXAMPLE.read_text().splitlines()) < 40
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE)])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert "mails: 1, events: 2" in capsys.readouterr().out


def test_the_example_of_the_orders_runs_with_a_server(
    server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), server.address])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert "mails: 1, events: 2" in capsys.readouterr().out


def run_examples(page: Path, change: Callable[[str], str]) -> None:
    examples = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    assert examples
    names: dict[str, object] = {}
    for example in examples:
        exec(compile(change(example), str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_examples(page, lambda example: example)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_of_a_page_run_with_a_server_after_one_change(page: Path, server: Server) -> None:
    changes = []

    def change(example: str) -> str:
        changed, count = re.subn(r"quire\.open\(.*?\)", f'quire.connect("{server.address}")', example)
        changes.append(count)
        return changed

    run_examples(page, change)
    assert sum(changes) == 1
