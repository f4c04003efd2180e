"""SQL over each home: values, parameters, errors and the interruption of a statement."""

import signal
import sys
import threading
import types

import pytest

import quire


def test_rows_are_tuples_and_dicts_with_their_position(db: quire.Database) -> None:
    for number in range(3):
        commit = quire.Commit().append("orders", "Placed", {"total": number}, tags=[f"order:{number}"])
        db.commit(commit.enqueue("mails", b"\xff"))
    rows = db.sql(
        "SELECT e.position, e.data ->> '$.total' AS total, j.payload FROM events e JOIN jobs j USING (commit_position)"
        " WHERE e.store = ?1 AND e.position >= ?2 ORDER BY 1",
        ["orders", 2],
    )
    assert rows.columns == ["position", "total", "payload"]
    assert list(rows) == rows.rows == [(2, 1, b"\xff"), (3, 2, b"\xff")]
    assert (len(rows), rows[0], rows[1:]) == (2, (2, 1, b"\xff"), [(3, 2, b"\xff")])
    assert rows.dicts()[1] == {"position": 3, "total": 2, "payload": b"\xff"}
    assert rows.as_of == db.position and rows.scanned > 0
    assert repr(rows).startswith("Rows(columns=[")

    first = db.sql("SELECT commit_position FROM events WHERE store = 'orders' AND position = 1")[0][0]
    before = db.sql("SELECT count(*) FROM events WHERE store = :store", {"store": "orders"}, as_of=first)
    assert (before.rows, before.as_of) == ([(1,)], first)


def test_values_and_parameters_are_the_same_in_both_homes(db: quire.Database) -> None:
    values = [None, True, -(2**63), 2**63 - 1, 0.1 + 0.2, 1.0, 5e-324, "ü\"\n", b"\x00\xff", bytearray(b"a"), memoryview(b"b")]
    marks = ", ".join(f"?{number + 1}" for number in range(len(values)))
    found = db.sql(f"SELECT {marks}", values)[0]  # type: ignore[arg-type]
    assert found == (None, 1, -(2**63), 2**63 - 1, 0.1 + 0.2, 1.0, 5e-324, "ü\"\n", b"\x00\xff", b"a", b"b")
    assert [type(value) for value in found[4:6]] == [float, float]
    with pytest.raises(OverflowError, match="64 bits"):
        db.sql("SELECT ?1", [2**63])
    with pytest.raises(ValueError, match="finite"):
        db.sql("SELECT ?1", [float("nan")])
    with pytest.raises(TypeError, match="list"):
        db.sql("SELECT ?1", [[1]])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="a list of values"):
        db.sql("SELECT ?1", "one")


def test_a_statement_fails_with_the_same_error_in_both_homes(db: quire.Database) -> None:
    for statement, message in [
        ("DELETE FROM events", "may not be modified"),
        ("CREATE TABLE t(a)", "changes nothing"),
        ("SELECT 1; SELECT 2", "several statements"),
        ("SELECT ?1", "has no value"),
        ("SELECT absent", "no such column"),
    ]:
        with pytest.raises(quire.Invalid, match=message) as invalid:
            db.sql(statement)
        assert invalid.value.code == "invalid"
    with pytest.raises(quire.NotFound):
        db.sql("SELECT * FROM events", as_of=db.position + 1)
    with pytest.raises(quire.Invalid, match="no past"):
        db.sql("SELECT * FROM jobs", as_of=db.position)


def test_a_signal_ends_a_statement(embedded: quire.Database) -> None:
    def stop(_signal: int, _frame: types.FrameType | None) -> None:
        raise KeyboardInterrupt

    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    before = signal.signal(signal.SIGUSR1, stop)
    main = threading.main_thread().ident
    assert main is not None
    sender = threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGUSR1))
    sender.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            embedded.sql(endless)
    finally:
        sender.join()
        signal.signal(signal.SIGUSR1, before)


def test_rows_become_a_data_frame_where_pandas_is_installed(
    db: quire.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    class DataFrame:
        def __init__(self, rows: list[tuple[object, ...]], columns: list[str]) -> None:
            self.rows, self.columns = rows, columns

    pandas = types.ModuleType("pandas")
    pandas.DataFrame = DataFrame  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    frame = db.sql("SELECT 1 AS one, 'a' AS two").pandas()
    assert (frame.rows, frame.columns) == ([(1, "a")], ["one", "two"])
