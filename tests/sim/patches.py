"""Where time, chance and threads come in: inside the block they are those of a simulated world.

The product reads clocks through ``time`` and ``SystemClock``, makes random numbers with ``random``, ``secrets`` and
``uuid``, and hands jobs to executors and to ``OneThread``. All of these are replaced for the process that runs a
simulation; ``tests/sim`` runs in processes of its own for that reason. The order of sets of text depends on
PYTHONHASHSEED, which must be fixed before Python starts: ``commands.require_fixed_hashes``.
"""

from __future__ import annotations

import builtins
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final
from unittest.mock import patch

from pyromq import clock
from pyromq.broker import duties
from pyromq.broker.base import identity, workers
from pyromq.broker.grpc import front as grpc_front
from pyromq.client.core import client as client_module
from pyromq.net import stalls
from pyromq.net.connection import Connection
from pyromq.net.http2 import Http2Connection
from pyromq.net.tls import ServerContext
from tests.sim.loop import Numbered, SimLoop
from tests.sim.servers import SimHttp2Server

WALL_MS: Final = 1_790_000_000_000  # of the first moment of every simulation


class _Times:
    """The clocks of the machine whose process runs; outside of all of them the true time."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self._asked = 0

    def monotonic(self) -> float:
        return 1_000.0 + self._loop.time()

    def monotonic_ns(self) -> int:
        return round(self.monotonic() * 1e9)

    def monotonic_ms(self) -> int:
        """As ``SystemClock`` has it, with two calls less: asked hundreds of times in a simulated second."""
        loop = self._loop
        process = loop.current
        if process is None:
            return round((1_000.0 + loop.true_s) * 1e9) // 1_000_000
        machine = process.machine
        return round((1_000.0 + (loop.true_s - machine.slept_s) * machine.rate) * 1e9) // 1_000_000

    def wall_ms(self) -> float:
        process = self._loop.current
        extra = process.machine.wall_ms + process.machine.jumped_ms if process is not None else 0
        return WALL_MS + extra + self._sleepless_s() * 1000

    def time(self) -> float:
        return self.wall_ms() / 1000

    def time_ns(self) -> int:
        """Two looks are never the same: names are made of it."""
        self._asked += 1
        return int(self.wall_ms() * 1e6) // 1_000_000 * 1_000_000 + self._asked % 1_000_000

    def _sleepless_s(self) -> float:
        process, true_s = self._loop.current, self._loop.true_s
        return true_s if process is None else true_s * process.machine.rate

    def machine(self, _: int = 0) -> float:
        """As CLOCK_BOOTTIME, which goes on while the machine sleeps."""
        return 1_000.0 + self._sleepless_s()

    def machine_ns(self, _: int = 0) -> int:
        return round(self.machine() * 1e9)

    def cpu(self) -> float:
        return 0.0


@contextmanager
def simulated(loop: SimLoop, entropy: random.Random, tick_s: float) -> Iterator[None]:
    """Everything that the product takes from its surroundings comes from the loop and from the generator."""
    times = _Times(loop)
    with ExitStack() as stack:

        def replaced(target: Any, name: str, value: Any) -> None:
            stack.enter_context(patch.object(target, name, value))

        for name, function in {
            "time": times.time,
            "time_ns": times.time_ns,
            "monotonic": times.monotonic,
            "monotonic_ns": times.monotonic_ns,
            "perf_counter": times.monotonic,
            "clock_gettime": times.machine,
            "clock_gettime_ns": times.machine_ns,
            "thread_time": times.cpu,
        }.items():
            replaced(time, name, function)
        replaced(clock.SystemClock, "monotonic_s", staticmethod(times.monotonic))
        replaced(clock.SystemClock, "monotonic_ms", staticmethod(times.monotonic_ms))
        replaced(stalls.StallWatch.__init__, "__defaults__", (times.monotonic, times.cpu))
        replaced(stalls.LoopProbe.__init__, "__defaults__", (times.monotonic, times.cpu))
        replaced(os, "getpid", lambda: loop.current.number if loop.current else 1)
        replaced(identity, "getpid", lambda: loop.current.number if loop.current else 1)
        replaced(os, "urandom", entropy.randbytes)
        replaced(random, "_urandom", entropy.randbytes)
        replaced(random.Random, "seed", _seeded(entropy))
        replaced(client_module, "own_ip", lambda hosts=(): loop.current.machine.ip if loop.current else "10.9.9.9")
        replaced(workers.OneThread, "run", _run_on(loop))
        replaced(workers.Workers, "shutdown", _finishing(loop))
        replaced(duties, "_TICK_S", tick_s)
        replaced(grpc_front, "Http2Server", SimHttp2Server)
        replaced(grpc_front, "grpc_tls", lambda *_: ServerContext())
        stack.enter_context(_numbered(Connection, Http2Connection))
        before = random.getstate()
        random.seed(entropy.getrandbits(64))
        stack.callback(random.setstate, before)
        yield


def _seeded(entropy: random.Random) -> Callable[..., None]:
    plain = random.Random.seed

    def seed(self: random.Random, a: Any = None, version: int = 2) -> None:
        plain(self, entropy.getrandbits(64) if a is None else a, version)

    return seed


def _run_on(loop: SimLoop) -> Callable[..., None]:
    def run(thread: workers.OneThread, job: workers.Job, then: workers.Then) -> None:
        if thread._is_down:
            raise RuntimeError(f"{thread._name} was shut down")
        loop.do_job(thread, job, lambda error, _: then(error))

    return run


def _finishing(loop: SimLoop) -> Callable[[workers.Workers], None]:
    plain = workers.Workers.shutdown

    def shutdown(self: workers.Workers) -> None:
        for each in (self.flush, self.seal, self.save, self.encode):
            loop.finish(each)
        plain(self)

    return shutdown


@contextmanager
def _numbered(*kinds: type) -> Iterator[None]:
    """Objects of the classes have hashes and ids in the order in which they are asked for: some are sorted by them."""
    numbers: dict[int, tuple[object, int]] = {}
    plain_id, plain_hashes = id, [kind.__hash__ for kind in kinds]

    def number(self: object) -> int:
        found = numbers.get(plain_id(self))
        if found is None:
            found = numbers[plain_id(self)] = self, Numbered.next_hash()
        return found[1]

    def numbered_id(each: object) -> int:
        return number(each) if type(each) in kinds else plain_id(each)

    for kind in kinds:
        kind.__hash__ = number  # type: ignore[method-assign, assignment]
    try:
        with patch.object(builtins, "id", numbered_id):
            yield
    finally:
        for kind, plain_hash in zip(kinds, plain_hashes, strict=True):
            kind.__hash__ = plain_hash  # type: ignore[method-assign]
