"""Seeds in child processes: several at a time, each with a few seeds, so that no run depends on those before it.

Children are forks of a process that has imported everything: a seed does not pay for what all of them need, and what
it leaves in memory goes with its process.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import NoReturn

_READ_BYTES = 1 << 16


class Children:
    """``work`` is what a child does with its seeds; ``run`` yields what each one printed, when it ends."""

    def __init__(self, work: Callable[[list[int]], None], jobs: int, seeds_each: int) -> None:
        self._work = work
        self._jobs = jobs
        self._seeds_each = seeds_each
        self._running: dict[int, tuple[int, bytearray]] = {}  # by the end of the pipe: the process, and what it said

    def run(self, seeds: Iterator[int]) -> Iterator[str]:
        try:
            while True:
                while len(self._running) < self._jobs and (few := list(islice(seeds, self._seeds_each))):
                    self._start(few)
                if not self._running:
                    return
                yield from self._ended()
        finally:
            self.stop()

    def stop(self) -> None:
        for end in list(self._running):
            with suppress(ProcessLookupError):
                os.kill(self._running[end][0], signal.SIGTERM)
            self._forget(end)

    def _start(self, seeds: list[int]) -> None:
        sys.stdout.flush()
        ours, theirs = os.pipe()
        child = os.fork()
        if not child:
            self._be_child(seeds, theirs)
        os.close(theirs)
        self._running[ours] = child, bytearray()

    def _be_child(self, seeds: list[int], output: int) -> NoReturn:
        """It never returns into the code that started it, and frees nothing."""
        code = 1
        try:
            os.dup2(output, sys.stdout.fileno())
            self._work(seeds)
            sys.stdout.flush()
            code = 0
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)

    def _ended(self) -> Iterator[str]:
        readable, _, _ = select.select(list(self._running), [], [])
        for end in readable:
            data = os.read(end, _READ_BYTES)
            if data:
                self._running[end][1].extend(data)
            else:
                printed = self._running[end][1].decode(errors="replace")
                self._forget(end)
                yield printed

    def _forget(self, end: int) -> None:
        child, _ = self._running.pop(end)
        os.close(end)
        os.waitpid(child, 0)
