"""Seeds in child processes: several at a time, each with a few seeds, so that no run depends on those before it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice


class Children:
    """``run`` yields what each child printed, in the order in which they end."""

    def __init__(self, arguments: Sequence[str], jobs: int, seeds_each: int) -> None:
        self._command = [sys.executable, "-m", "tests.sim", *arguments, "--as-child"]
        self._jobs = jobs
        self._seeds_each = seeds_each
        self._running: set[subprocess.Popen[str]] = set()

    def run(self, seeds: Iterator[int]) -> Iterator[str]:
        with ThreadPoolExecutor(self._jobs) as pool:
            waiting: set[Future[str]] = set()
            try:
                while True:
                    while len(waiting) < self._jobs and (few := list(islice(seeds, self._seeds_each))):
                        waiting.add(pool.submit(self._child, few))
                    if not waiting:
                        return
                    ended, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                    for each in ended:
                        yield each.result()
            finally:
                self.stop()

    def stop(self) -> None:
        for each in list(self._running):
            each.terminate()

    def _child(self, seeds: list[int]) -> str:
        command = [*self._command, "--seeds", f"{seeds[0]}..{seeds[-1]}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            self._running.add(child)
            try:
                printed, _ = child.communicate()
            finally:
                self._running.discard(child)
        return printed
