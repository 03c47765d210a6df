"""Long responses, made in steps: what takes longer than a moment lets other requests pass in between.

    handler ──▶ steps: a generator ──few pieces──▶ the response, at once
                        └──────many pieces──▶ a few per loop iteration ──▶ encoded on a worker ──▶ the response

A handler of that kind returns a generator (``store.tables.steps``). It yields after every piece of work that takes
about a millisecond, yields a job where a disk has to be waited for, and returns a job without side effects that makes
the body from what was collected. The pieces run on the loop, for they read the store and the tables; tables may change
between two of them. One long response is made at a time; those that wait are bounded.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from pyromq.broker.base.refusals import RefusedError, refusal_of
from pyromq.broker.base.responses import Response, send_failure, send_refusal, send_response
from pyromq.errors import MQError
from pyromq.net.connection import Connection
from pyromq.store.tables.steps import InSteps, Work, all_steps, step
from pyromq.wire.codes import ResponseCode
from pyromq.wire.json.java_json import dumps_in_pieces
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)

PIECE: Final = 64  # queues, topics, groups or offsets between two yields
PIECES_AT_ONCE: Final = 8  # a response that takes no more is made at once
PIECES_PER_TURN: Final = 4
WAITING_MAX: Final = 64

T = TypeVar("T")
Job = Callable[[], Response]
Steps = InSteps[Job]
Respond = Callable[[Connection, Received[Any], Response], None]


def nothing() -> None:
    """The job of a response without header and body."""


def pieces(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """For ``for piece in pieces(…): yield``."""
    for start in range(0, len(items), PIECE):
        yield items[start : start + PIECE]


def elsewhere(count: int) -> Generator[None, None, None]:
    """``yield from`` it before a job whose input is there already: of many items it runs on the worker."""
    for _ in range(0, count, PIECE):
        yield


def encoded(value: msgspec.Struct, field: str, *, pretty: bool = False) -> Generator[None, None, Callable[[], bytes]]:
    """``return (yield from encoded(…))``: the text of a struct whose ``field`` is large, in steps as well."""
    fragments = []
    for fragment in dumps_in_pieces(value, field, PIECE, pretty=pretty):
        fragments.append(fragment)
        yield
    return partial(b"".join, fragments)


def finished(steps: Steps) -> Response:
    """All of it now: for tests, and for what is known to be small."""
    return all_steps(steps)()


class _Waiting(NamedTuple):
    connection: Connection
    request: Received[Any]
    steps: Steps
    work: Work | None  # what the last step has asked for


class LongResponses:
    """Owner of the responses that are being made; ``respond`` sends them."""

    def __init__(self, worker: Executor, respond: Respond = send_response) -> None:
        self._worker = worker
        self._respond = respond
        self._waiting: deque[_Waiting] = deque()
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(self, connection: Connection, request: Received[Any], steps: Steps) -> None:
        """Make and send it now if it is short. Raises RefusedError when too many wait, and what the steps raise."""
        work: Work | None = None
        for _ in range(PIECES_AT_ONCE):
            try:
                work = step(steps, work)
            except StopIteration as end:
                self._respond(connection, request, end.value())
                return
        if len(self._waiting) >= WAITING_MAX:
            steps.close()
            text = f"{WAITING_MAX} long responses are waiting to be made: ask again in a few seconds"
            raise RefusedError(ResponseCode.SYSTEM_BUSY, text)
        self._waiting.append(_Waiting(connection, request, steps, work))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="long responses")

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._make(self._waiting[0])
                self._waiting.popleft()
        finally:
            self._task = None

    async def _make(self, waiting: _Waiting) -> None:
        connection, request, steps, _ = waiting
        try:
            job = await self._collect(waiting)
            if job is not None:
                response = await self._elsewhere(job)
                self._respond(connection, request, response)
        except MQError as error:
            send_refusal(connection, request, *refusal_of(error))
        except Exception as error:  # a defect of ours must not keep the next ones from being made
            logger.exception("request failed: code=%d peer=%s", request.code, connection.remote_text)
            send_failure(connection, request, error)
        finally:
            steps.close()

    def _elsewhere(self, work: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._worker, work)

    async def _collect(self, waiting: _Waiting) -> Job | None:
        """None when no connection waits for it any more."""
        steps, work = waiting.steps, waiting.work
        while waiting.connection.is_open:
            await asyncio.sleep(0)
            for _ in range(PIECES_PER_TURN):
                result = error = None
                if work is not None:
                    try:
                        result = await self._elsewhere(work)
                    except Exception as failure:  # the steps decide what becomes of it
                        error = failure
                try:
                    work = steps.throw(error) if error is not None else steps.send(result)
                except StopIteration as end:
                    job: Job = end.value
                    return job
        return None

    async def close(self) -> None:
        """What is not made yet is not made any more."""
        if (task := self._task) is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        while self._waiting:
            self._waiting.popleft().steps.close()
