"""The module in Rust. `docs/python.md` has the conventions: values, times and errors."""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, overload

Value = Any
"""`bytes`, `bytearray` or `memoryview` as they are, `str` as UTF-8, `None` for no value, and
anything else as JSON."""
SqlValue = None | int | float | str | bytes
"""A value of a row or a parameter. Text that is no UTF-8 is `bytes`."""
Direction = Literal["out", "in", "both"]

def open(
    path: str | os.PathLike[str],
    *,
    sync: Literal["sync", "os"] = "sync",
    create: bool = True,
    exclusive: bool = False,
    read_only: bool = False,
    profile: Literal["balanced", "low_latency", "throughput", "small_disk"] | None = None,
) -> Database:
    """Opens the database in a directory. Several processes may have it open.

    With `sync="sync"` an acknowledged commit survives a loss of power; with `"os"`, the death of
    every process.
    """

def connect(
    address: str,
    *,
    key: str | None = None,
    key_file: str | os.PathLike[str] | None = None,
    ca: str | os.PathLike[str] | None = None,
    timeout: float = 30.0,
) -> Database:
    """A database behind a server at `http://HOST:PORT`, `https://HOST:PORT` or `unix:PATH`.

    `key` is an API key, or the file `key_file` contains it; by default it is that of the variable
    `QUIRE_KEY`. `ca` is a file of trusted certificates in PEM; by default it is that of `QUIRE_CA`,
    or the roots of the system. `timeout` limits a call with its retries. The client connects with
    its first call.
    """

def fail_if_matches(query: Query, after: int = 0) -> Condition:
    """The condition that no event after position `after` matches."""

def last_is(query: Query, position: int) -> Condition:
    """The condition that the last event that matches is at `position`; 0 when none matches."""

def _forked() -> None: ...

class Database:
    """A database in a directory or behind a server. Handles may be used from several threads."""

    def commit(self, commit: Commit) -> CommitResult:
        """Commits all parts or none, and waits until the commit is durable."""

    def commit_async(self, commit: Commit) -> asyncio.Future[CommitResult]:
        """Commits all parts or none; awaits that the commit is durable."""

    def store(self, name: str) -> EventStore: ...
    def queue(self, name: str) -> Queue: ...
    def topic(self, name: str) -> Topic: ...
    def graph(self, name: str) -> Graph: ...
    def sql(
        self,
        statement: str,
        params: Iterable[SqlValue] | Mapping[str, SqlValue] | None = None,
        *,
        as_of: int | None = None,
    ) -> Rows:
        """Runs one `SELECT` over the live data. `params` has the values of `?1`, `?2` and so on, or
        those of `:name` by name. `as_of` reads the log as of an earlier position."""

    @property
    def position(self) -> int:
        """The position of the last published commit."""

    def wait_after(self, position: int, timeout: float | None = None) -> bool:
        """Waits for a commit after `position`. Returns whether there is one. Embedded only."""

    def sync(self) -> None:
        """Syncs all commits to the disk. Embedded only."""

    def close(self) -> None:
        """Closes the database. Later calls of its handles raise `Failed`. Subscriptions, workers
        and consumers keep it open until they are dropped."""

    def __enter__(self) -> Database: ...
    def __exit__(self, *_exception: object) -> None: ...

class Commit:
    """Parts that happen together, or not at all. Each method adds a part and returns the commit."""

    def __init__(self, *, idempotency_key: str | None = None) -> None: ...
    def __len__(self) -> int: ...
    def append(
        self,
        store: str,
        event_type: str,
        data: Value = None,
        *,
        tags: Iterable[str] | None = None,
        metadata: Value = None,
        id: object = None,
        conditions: Condition | Iterable[Condition] | None = None,
    ) -> Commit: ...
    def append_all(
        self, store: str, events: Iterable[NewEvent], *, conditions: Condition | Iterable[Condition] | None = None
    ) -> Commit: ...
    def produce(
        self,
        topic: str,
        value: Value = None,
        *,
        key: Value = None,
        headers: Mapping[str, Value] | None = None,
        partition: int | None = None,
        time: float | None = None,
    ) -> Commit: ...
    def commit_offset(self, group: str, topic: str, partition: int, offset: int) -> Commit: ...
    def enqueue(
        self,
        queue: str,
        payload: Value = None,
        *,
        kind: str | None = None,
        group: str | None = None,
        tags: Iterable[str] | None = None,
        unique: Value = None,
        priority: int | None = None,
        run_in: float | None = None,
        expires_in: float | None = None,
        timeout: float | None = None,
        backoff: float | None = None,
        attempts_max: int | None = None,
        retention: float | None = None,
    ) -> Commit: ...
    def ack(self, job: Job, result: Value = None) -> Commit: ...
    def fail(self, job: Job, error: str, *, retry_in: float | None = None, retry: bool = True) -> Commit: ...
    def snooze(self, job: Job, seconds: float) -> Commit: ...
    def put(
        self,
        graph: str,
        name: str,
        kind: str,
        content: Value = None,
        *,
        tags: Iterable[str] | None = None,
        metadata: Value = None,
        source: str | None = None,
        expect_version: int | None = None,
    ) -> Commit: ...
    def delete(self, graph: str, name: str) -> Commit: ...
    def link(
        self,
        graph: str,
        source: str,
        edge_type: str,
        target: str,
        properties: Value = None,
        *,
        allow_missing: bool = False,
    ) -> Commit: ...
    def unlink(self, graph: str, source: str, edge_type: str, target: str) -> Commit: ...

class CommitResult:
    """The result of a commit, with one reply for each part."""

    @property
    def position(self) -> int: ...
    @property
    def is_replay(self) -> bool:
        """Whether an earlier commit with the same idempotency key was answered again."""

    @property
    def replies(self) -> list[AppendResult | EnqueueResult | ProduceResult | PutResult | None]: ...

class AppendResult:
    @property
    def first(self) -> int | None: ...
    @property
    def last(self) -> int | None: ...
    @property
    def duplicate(self) -> bool: ...

class EnqueueResult:
    @property
    def job(self) -> str: ...
    @property
    def duplicate(self) -> bool: ...

class ProduceResult:
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...

class PutResult:
    @property
    def version(self) -> int: ...
    @property
    def created(self) -> bool: ...

class Query:
    """Events of any of the types that have all of the tags. `a | b` matches what `a` or `b` does."""

    def __init__(self, *types: str, tags: Iterable[str] | None = None) -> None: ...
    def __or__(self, other: Query) -> Query: ...

class Condition:
    """A condition of an append: see `fail_if_matches` and `last_is`."""

class NewEvent:
    """An event to append."""

    def __init__(
        self,
        event_type: str,
        data: Value = None,
        *,
        tags: Iterable[str] | None = None,
        metadata: Value = None,
        id: object = None,
    ) -> None: ...

class Event:
    """An event of a store."""

    @property
    def position(self) -> int: ...
    @property
    def id(self) -> str: ...
    @property
    def time(self) -> float: ...
    @property
    def type(self) -> str: ...
    @property
    def tags(self) -> list[str]: ...
    @property
    def metadata(self) -> bytes: ...
    @property
    def data(self) -> bytes: ...
    def text(self) -> str: ...
    def json(self) -> Any: ...

class Events:
    """Events that a read returned. `head` is the last position of the store at that time: pass it
    to `fail_if_matches`."""

    @property
    def head(self) -> int: ...
    @property
    def events(self) -> list[Event]: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Event]: ...
    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...

class EventStore:
    """An event store."""

    @property
    def name(self) -> str: ...
    def append(
        self,
        event_type: str,
        data: Value = None,
        *,
        tags: Iterable[str] | None = None,
        metadata: Value = None,
        id: object = None,
        conditions: Condition | Iterable[Condition] | None = None,
    ) -> int:
        """Appends one event, and returns its position."""

    def append_all(
        self, events: Iterable[NewEvent], *, conditions: Condition | Iterable[Condition] | None = None
    ) -> AppendResult: ...
    def read(
        self,
        query: Query | None = None,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int | None = None,
        backwards: bool = False,
    ) -> Events: ...
    def head(self) -> int:
        """The position of the last event; 0 for an empty store."""

    def subscribe(self, query: Query | None = None, *, after: int = 0) -> Subscription:
        """Events after `after`: those of now, then those to come. For `for` and `async for`."""

class Subscription:
    """An endless iterator of events."""

    def next(self, timeout: float | None = None) -> Event | None:
        """The next event; `None` after `timeout` seconds without one."""

    def __iter__(self) -> Subscription: ...
    def __next__(self) -> Event: ...
    def __aiter__(self) -> AsyncIterator[Event]: ...
    def __anext__(self) -> asyncio.Future[Event]: ...

class Job:
    """A job that a worker holds under a lease."""

    @property
    def id(self) -> str: ...
    @property
    def token(self) -> str: ...
    @property
    def queue(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def group(self) -> str: ...
    @property
    def attempt(self) -> int: ...
    @property
    def attempts_max(self) -> int: ...
    @property
    def deadline(self) -> float: ...
    @property
    def payload(self) -> bytes: ...
    def text(self) -> str: ...
    def json(self) -> Any: ...

class Queue:
    """A queue of jobs."""

    @property
    def name(self) -> str: ...
    def enqueue(
        self,
        payload: Value = None,
        *,
        kind: str | None = None,
        group: str | None = None,
        tags: Iterable[str] | None = None,
        unique: Value = None,
        priority: int | None = None,
        run_in: float | None = None,
        expires_in: float | None = None,
        timeout: float | None = None,
        backoff: float | None = None,
        attempts_max: int | None = None,
        retention: float | None = None,
    ) -> str:
        """Enqueues a job, and returns its id."""

    def fetch(self, worker: str, count: int = 1, *, lease: float = 30.0, wait: float | None = 0.0) -> list[Job]:
        """Fetches due jobs, and waits up to `wait` seconds for one; `None` waits without end."""

    def fetch_async(self, worker: str, count: int = 1, *, lease: float = 30.0) -> asyncio.Future[list[Job]]: ...
    def ack(self, job: Job, result: Value = None) -> None: ...
    def ack_async(self, job: Job, result: Value = None) -> asyncio.Future[None]: ...
    def fail(self, job: Job, error: str, *, retry_in: float | None = None, retry: bool = True) -> None: ...
    def heartbeat(self, job: Job, *, lease: float = 30.0) -> None: ...
    def heartbeat_async(self, job: Job, *, lease: float = 30.0) -> asyncio.Future[None]: ...
    def snooze(self, job: Job, seconds: float) -> None: ...
    def stats(self) -> dict[str, int] | None: ...
    def worker(
        self,
        name: str,
        *,
        concurrency: int = 1,
        lease: float = 30.0,
        on_error: Callable[[Job, BaseException], object] | None = None,
    ) -> Worker:
        """A worker. `on_error` gets each job that failed or whose outcome was refused. A server that
        does not answer is a warning of the logger `quire`."""

    def jobs(self, worker: str, *, lease: float = 30.0) -> AsyncGenerator[Job, None]:
        """The jobs of the queue, for `async for`. Each is held by heartbeats until the next one is
        taken; acknowledge it before."""

    def _fetch_next(self, worker: str, lease: float) -> asyncio.Future[list[Job]]: ...
    def _rest(self) -> tuple[int, float] | None: ...
    def _published_after(self, position: int) -> asyncio.Future[None]: ...

class Fail:
    """An outcome of a handler: the job failed."""

    def __init__(self, error: str, *, retry_in: float | None = None, retry: bool = True) -> None: ...

class Snooze:
    """An outcome of a handler: the job is to run later."""

    def __init__(self, seconds: float) -> None: ...

class Worker:
    """A worker of a queue. It runs once."""

    def run(self, handler: Callable[[Job], Any]) -> dict[str, int]:
        """Calls `handler` for each job, with heartbeats, until the worker is stopped. Returns how
        many jobs were completed, failed, snoozed and refused."""

    def stop(self) -> None: ...

class Record:
    """A record of a topic."""

    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def time(self) -> float: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> list[tuple[str, bytes | None]]: ...
    def text(self) -> str | None: ...
    def json(self) -> Any: ...

class Records:
    """Records that a read returned, and the offset to continue from."""

    @property
    def records(self) -> list[Record]: ...
    @property
    def next_offset(self) -> int: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Record]: ...
    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> list[Record]: ...

class Rows:
    """The rows of a statement, as tuples."""

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""

    @property
    def rows(self) -> list[tuple[Any, ...]]: ...
    @property
    def as_of(self) -> int:
        """The position as of which the log was read."""

    @property
    def scanned(self) -> int:
        """The number of rows that were read."""

    def dicts(self) -> list[dict[str, Any]]:
        """The rows as dicts. Of columns with one name, the last one counts."""

    def pandas(self) -> Any:
        """The rows as a `DataFrame`. The package `pandas` must be installed."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[tuple[Any, ...]]: ...
    @overload
    def __getitem__(self, index: int) -> tuple[Any, ...]: ...
    @overload
    def __getitem__(self, index: slice) -> list[tuple[Any, ...]]: ...

class Topic:
    """A topic."""

    @property
    def name(self) -> str: ...
    def create(self, partitions: int = 1) -> None: ...
    def produce(
        self,
        value: Value = None,
        *,
        key: Value = None,
        headers: Mapping[str, Value] | None = None,
        partition: int | None = None,
        time: float | None = None,
    ) -> ProduceResult: ...
    def read(self, partition: int = 0, offset: int = 0, *, bytes_max: int = 1048576) -> Records: ...
    def offsets(self, partition: int = 0) -> tuple[int, int]:
        """The first offset of a partition, and the offset after its last record."""

    def committed_offset(self, group: str, partition: int = 0) -> int | None: ...
    def commit_offset(self, group: str, partition: int, offset: int) -> None: ...
    def consumer(
        self,
        group: str,
        *,
        member: str | None = None,
        lease: float = 10.0,
        records_max: int | None = None,
        retries: int = 3,
        dead_letter: str | None = None,
        from_start: bool = True,
    ) -> Consumer:
        """A consumer of a group. Members with a name share the partitions; a consumer without one
        reads all of them. A server has no members: leave out `member`."""

class Delivery:
    """Records of one partition."""

    @property
    def partition(self) -> int: ...
    @property
    def lost(self) -> int: ...
    @property
    def records(self) -> list[Record]: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Record]: ...

class Consumer:
    """A consumer: an endless iterator of deliveries."""

    def next(self, timeout: float | None = None) -> Delivery | None: ...
    def __iter__(self) -> Consumer: ...
    def __next__(self) -> Delivery: ...
    def __aiter__(self) -> AsyncIterator[Delivery]: ...
    def __anext__(self) -> asyncio.Future[Delivery]: ...
    def ack(self, delivery: Delivery, commit: Commit | None = None) -> None:
        """Commits the offset of a delivery as read, together with `commit`."""

    def run(self, handler: Callable[[list[Record]], Commit | None]) -> None:
        """Calls `handler` for each delivery, until the consumer is stopped. The commit that the
        handler returns and the offset happen together."""

    def stop(self) -> None: ...

class Block:
    """A block of a graph."""

    @property
    def name(self) -> str | None: ...
    @property
    def kind(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def tags(self) -> list[str]: ...
    @property
    def version(self) -> int: ...
    @property
    def time(self) -> float: ...
    @property
    def metadata(self) -> bytes: ...
    @property
    def content(self) -> bytes: ...
    def text(self) -> str: ...
    def json(self) -> Any: ...

class Neighbour:
    """The other end of an edge."""

    @property
    def name(self) -> str | None: ...
    @property
    def edge_type(self) -> str: ...
    @property
    def outgoing(self) -> bool: ...

class Visit:
    """A block that a walk reached."""

    @property
    def name(self) -> str | None: ...
    @property
    def depth(self) -> int: ...

class Graph:
    """A graph."""

    @property
    def name(self) -> str: ...
    def put(
        self,
        name: str,
        kind: str,
        content: Value = None,
        *,
        tags: Iterable[str] | None = None,
        metadata: Value = None,
        source: str | None = None,
        expect_version: int | None = None,
    ) -> PutResult: ...
    def delete(self, name: str) -> None: ...
    def link(
        self, source: str, edge_type: str, target: str, properties: Value = None, *, allow_missing: bool = False
    ) -> None: ...
    def unlink(self, source: str, edge_type: str, target: str) -> None: ...
    def block(self, name: str) -> Block | None: ...
    def neighbours(
        self, name: str, *, direction: Direction = "out", types: Iterable[str] | None = None, limit: int = 1000
    ) -> list[Neighbour]: ...
    def walk(
        self,
        start: str,
        *,
        direction: Direction = "out",
        types: Iterable[str] | None = None,
        depth: int = 10,
        limit: int = 10000,
    ) -> list[Visit]:
        """The blocks that edges reach from `start`, the nearest first."""

    def path(
        self,
        start: str,
        end: str,
        *,
        direction: Direction = "out",
        types: Iterable[str] | None = None,
        depth: int = 10,
    ) -> list[str | None] | None:
        """The names of a shortest path, with both ends; `None` when there is no path."""
