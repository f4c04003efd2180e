"""Jobs with asyncio: leases are kept by a task, and an idle worker waits for a commit or a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any

from quire._errors import Refused

if TYPE_CHECKING:
    from quire._quire import Commit, Fail, Job, Queue, Snooze

    Outcome = Commit | Fail | Snooze | Any
    """What a handler of jobs returns: a commit, which also acknowledges the job; `Fail`; `Snooze`;
    or the result to acknowledge the job with, a value or `None`."""
    Handler = Callable[[Job], Outcome]
else:
    Outcome = Any
    Handler = Callable[..., Any]


async def jobs(queue: Queue, worker: str, lease: float) -> AsyncGenerator[Job, None]:
    """The jobs of a queue, one at a time, as they become due. Each is held by heartbeats until the
    next one is taken. The caller acknowledges it before."""
    while True:
        fetched = await queue._fetch_next(worker, lease)
        if not fetched:
            await _rest(queue)
            continue
        keeper = asyncio.create_task(_keep(queue, fetched[0], lease))
        try:
            yield fetched[0]
        finally:
            keeper.cancel()


async def _rest(queue: Queue) -> None:
    """Waits for a commit, or until a job is due. A server has waited already."""
    rest = queue._rest()
    if rest is None:
        return
    position, at_most = rest
    published = queue._published_after(position)
    await asyncio.wait({published}, timeout=at_most)
    published.cancel()


async def _keep(queue: Queue, job: Job, lease: float) -> None:
    """Extends the lease of a job, until the task is cancelled or the lease is lost."""
    while True:
        await asyncio.sleep(lease / 3)
        try:
            await queue.heartbeat_async(job, lease=lease)
        except Refused:
            return
