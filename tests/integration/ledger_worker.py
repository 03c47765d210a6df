"""A consumer in a process of its own, which writes down what it finished and may die at a marked point.

python -m tests.integration.ledger_worker '{"nameserver": …, "topic": …, "group": …}' FILE

work    in the listener, when the work is written down and nobody was told
ack     the listeners have returned, no offset was saved
fail    listeners have failed, and what they failed with is on its way back
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import msgspec
import uvloop

from pyromq.aio import PushConsumer, ReceivedMessage
from pyromq.settings import PushConsumerSettings

ATTEMPTS_MAX = 3
_FOREVER = 1 << 30


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """``point`` is where it dies, after ``count`` messages; empty: it lives."""

    nameserver: str
    topic: str
    group: str
    fail_percent: int = 0
    point: str = ""
    count: int = 0


def failures_of(message_id: str, percent: int) -> int:
    """How often a message fails before it succeeds: some once or twice, one in five of those that fail always."""
    number = crc32(message_id.encode())
    if number % 100 >= percent:
        return 0
    return (1, 2, 1, 2, _FOREVER)[number // 100 % 5]


def is_to_fail(message: ReceivedMessage, percent: int) -> bool:
    return message.delivery_attempt < failures_of(message.message_id, percent)


SETTINGS = PushConsumerSettings(
    start="earliest",
    rebalance_ms=300,
    persist_ms=100,
    error_wait_ms=100,
    retry_wait_ms=100,
    attempts_max=ATTEMPTS_MAX,
)


class Worker:
    """Counts, writes down, and dies when it is told to."""

    def __init__(self, plan: Plan, file: str) -> None:
        self._plan = plan
        self._file = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._finished = self._failed = 0
        self._release = asyncio.Event()
        chosen = SETTINGS
        if plan.point == "ack":
            chosen = replace(chosen, persist_ms=3_600_000, concurrency_max=plan.count)
        self.member = PushConsumer(plan.nameserver, listener=self.consume, settings=chosen, group=plan.group)
        self.member.subscribe(plan.topic)

    async def consume(self, message: ReceivedMessage) -> None:
        plan = self._plan
        if is_to_fail(message, plan.fail_percent):
            self._failed += 1
            if plan.point == "fail" and self._failed == plan.count:
                asyncio.get_running_loop().call_soon(die)
            raise ValueError("this one fails")
        os.write(self._file, message.message_id.encode() + b"\n")
        self._finished += 1
        if plan.point == "work" and self._finished == plan.count:
            die()
        if plan.point == "ack":
            await self._release.wait()  # until all are pulled: no later pull takes an offset along

    async def run(self) -> None:
        plan, member = self._plan, self.member
        async with member:
            if plan.point == "ack":
                await _until(lambda: self._finished == plan.count)
                self._release.set()
                await _until(lambda: member.counts.ok == plan.count)
                die()
            await asyncio.Event().wait()


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - counts that nobody signals
        await asyncio.sleep(0.002)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class WorkerProcess:
    """``async with WorkerProcess(plan, file) as process``; it is killed at the end, wherever it is then."""

    def __init__(self, plan: Plan, file: Path) -> None:
        self._arguments = (msgspec.json.encode(plan).decode(), str(file))

    async def __aenter__(self) -> WorkerProcess:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.integration.ledger_worker", *self._arguments),
            stderr=asyncio.subprocess.DEVNULL,
            cwd=Path(__file__).parents[2],
        )
        return self

    async def death(self, timeout_s: float = 30) -> int:
        """Its exit code, when it has died by itself."""
        return await asyncio.wait_for(self._process.wait(), timeout_s)

    async def __aexit__(self, *exc_info: object) -> None:
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(Worker(msgspec.json.decode(sys.argv[1], type=Plan), sys.argv[2]).run())
