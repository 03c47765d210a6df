"""A pytest plugin: what a run found, in a file for whoever runs several, and in a line what could not run here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable
from pathlib import Path

import msgspec
import pytest

from tests.running.memory import RUN_MEMORY, is_worker

OTHER_MODE = "pure Python ("  # the beginning of what compiled_core says of itself: these tests are not missing
OWN_ENVIRONMENT = "has an environment of its own: make "


class Results(msgspec.Struct):
    """The outcome of one run of pytest."""

    passed: list[str] = msgspec.field(default_factory=list)  # node ids of what passed to its very end
    failed: list[str] = msgspec.field(default_factory=list)  # node ids; of a module that cannot be imported, its path
    not_set_up: list[str] = msgspec.field(default_factory=list)  # those of the failed that a fixture failed
    seconds: dict[str, float] = msgspec.field(default_factory=dict)  # of each test, with its fixtures
    missing: dict[str, int] = msgspec.field(default_factory=dict)  # why tests could not run here, and how many
    memory: str = ""
    is_above_limit: bool = False

    def causes(self, names: Iterable[str]) -> list[str]:
        """Why these failed: what one fixture of a module fails, a hundred tests perhaps, is one failure."""
        not_set_up = set(self.not_set_up)
        return list(dict.fromkeys(_set_up_of(name) if name in not_set_up else name for name in names))

    def slowest(self, count: int) -> list[tuple[float, str]]:
        return sorted(((seconds, name) for name, seconds in self.seconds.items()), reverse=True)[:count]


def _set_up_of(name: str) -> str:
    return f"{name.partition('::')[0]} (set-up)"


def missing_line(missing: dict[str, int]) -> str:
    """One line for all that could not run: a skipped test is easily taken for one that passed."""
    told = (f"{reason} ({count} {'test' if count == 1 else 'tests'})" for reason, count in sorted(missing.items()))
    return "did not run here: " + "; ".join(told)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--results", type=Path, help="file for the outcome, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    if not is_worker(config):
        config.pluginmanager.register(RunResults(config), "results of a run")


class RunResults:
    """In the process that prints."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._passed: dict[str, None] = {}
        self._failed: dict[str, None] = {}
        self._not_set_up: dict[str, None] = {}
        self._missing: Counter[str] = Counter()
        self.results = Results()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        seconds, name = self.results.seconds, report.nodeid
        seconds[name] = round(seconds.get(name, 0.0) + report.duration, 3)
        if report.failed:
            self._failed[name] = None
            if report.when == "setup":
                self._not_set_up[name] = None
        elif report.skipped:
            self._note_skip(report.longrepr)
        elif report.when == "call":
            self._passed[name] = None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._failed[report.nodeid] = None
        elif report.skipped:
            self._note_skip(report.longrepr)

    def _note_skip(self, longrepr: object) -> None:
        reason = str(longrepr[2]) if isinstance(longrepr, tuple) else str(longrepr)
        if OTHER_MODE not in reason and OWN_ENVIRONMENT not in reason:
            self._missing[reason.removeprefix("Skipped: ")] += 1

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Generator[None]:
        yield
        if self._missing:
            terminalreporter.write_line(missing_line(self._missing), yellow=True)

    def pytest_unconfigure(self) -> None:
        if (file := self._config.getoption("results")) is None:
            return
        self.results.passed = [name for name in self._passed if name not in self._failed]  # one may fail in its end
        self.results.failed, self.results.not_set_up = list(self._failed), list(self._not_set_up)
        self.results.missing = dict(self._missing)
        if memory := self._config.stash.get(RUN_MEMORY, None):
            self.results.memory, self.results.is_above_limit = memory.told(), memory.is_above_limit()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(msgspec.json.encode(self.results))
