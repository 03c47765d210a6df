"""A pytest plugin: no process of the tests is larger than a laptop can bear, and the last line says how large each was.

Brokers, stores and their disks in memory refer to each other, so they wait for a full collection, and Python begins one
when the *number* of objects has grown by a quarter: with ten thousand collected tests in memory that takes hundreds of
stores. What pytest has collected is therefore set aside (``gc.freeze``), and after a test that took memory what it left
is collected.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from typing import Any

import pytest

from pyromq.net.handshakes import return_free_memory
from tests.running.processes import CAN_MEASURE, DescendantPeaks, own_peak_mb, own_resident_mb

LIMIT_MB = 1024
GROWTH_MB = 24  # of a worker since its last collection
NAMED_MAX = 5  # tests that raised a peak most


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--memory-limit-mb", type=int, default=LIMIT_MB, help="for every process of the tests")


def pytest_configure(config: pytest.Config) -> None:
    if is_worker(config):
        config.pluginmanager.register(WorkerMemory(config), "memory of a worker")
        return
    config.pluginmanager.register(RunMemory(config), "memory of a run")
    if not config.getoption("numprocesses", None):
        config.pluginmanager.register(WorkerMemory(config), "memory of a worker")


def is_worker(config: pytest.Config) -> bool:
    """Whether this is a process that xdist has started."""
    return hasattr(config, "workerinput")


class WorkerMemory:
    """In every process that runs tests: collects what they leave, and tells its peak."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._after_collection_mb = 0.0
        self._raised: list[tuple[int, str]] = []  # megabytes by which a test raised the peak, and its name

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        gc.collect()
        gc.freeze()
        self._after_collection_mb = own_resident_mb()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        before_mb = own_peak_mb()
        result = yield
        if (raised_mb := own_peak_mb() - before_mb) > 0:
            self._raised = sorted([*self._raised, (raised_mb, item.nodeid)], reverse=True)[:NAMED_MAX]
        if own_resident_mb() > self._after_collection_mb + GROWTH_MB:
            gc.collect()
            return_free_memory()
            self._after_collection_mb = own_resident_mb()
        return result

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        gc.unfreeze()
        if is_worker(self._config):
            output = self._config.workeroutput  # type: ignore[attr-defined]
            output["peak"], output["raised"] = (os.getpid(), own_peak_mb()), self._raised
        elif RUN_MEMORY in self._config.stash:
            self._config.stash[RUN_MEMORY].raised += self._raised


class RunMemory:
    """In the process that prints: peaks of all, and the verdict."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._limit_mb = int(config.getoption("memory_limit_mb"))
        self._descendants = DescendantPeaks()
        self._workers: set[int] = set()  # process ids
        self._peaks: dict[str, int] = {}
        self.raised: list[tuple[int, str]] = []
        config.stash[RUN_MEMORY] = self

    def pytest_sessionstart(self) -> None:
        self._descendants.start()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        if "peak" in (output := getattr(node, "workeroutput", None) or {}):  # else it has crashed
            pid, self._peaks[node.gateway.id] = output["peak"]
            self._workers.add(pid)
            self.raised += [(raised_mb, name) for raised_mb, name in output["raised"]]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None]:
        """The last word of the run, below the counts of pytest."""
        yield
        self._descendants.sample()
        self._descendants.stop()
        self._peaks["controller" if self._peaks else "tests"] = own_peak_mb()
        if self.is_above_limit() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if reporter := self._config.pluginmanager.get_plugin("terminalreporter"):
            if self.is_above_limit():
                most = ", ".join(
                    f"{name} (+{raised_mb} MB)" for raised_mb, name in sorted(self.raised)[: -NAMED_MAX - 1 : -1]
                )
                reporter.write_line(f"tests that raised it most: {most}", red=True)
            line = f"peak memory: {self.told()}; {verdict(self._limit_mb, is_above=self.is_above_limit())}"
            reporter.write_line(line, red=self.is_above_limit())

    def told(self) -> str:
        """Peaks of this run, in megabytes."""
        if not CAN_MEASURE:
            return "not measured, there is no /proc here"
        told = ", ".join(f"{name} {peak:,} MB" for name, peak in sorted(self._peaks.items()))
        if (child := self._descendants.largest(self._workers)).name:
            told += f"; processes that they started {child.megabytes:,} MB at most ({child.name})"
        return told

    def is_above_limit(self) -> bool:
        largest = max(self._descendants.largest(self._workers).megabytes, *self._peaks.values(), 0)
        return largest > self._limit_mb


RUN_MEMORY = pytest.StashKey[RunMemory]()


def verdict(limit_mb: int, *, is_above: bool) -> str:
    """Words about the limit; a run above it has failed."""
    return f"{'ABOVE' if is_above else 'within'} the limit of {limit_mb:,} MB"
