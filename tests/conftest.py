"""What every test shares: coroutine tests are run, counts of the crash suite are shown above pytest's summary."""

from __future__ import annotations

import asyncio
import inspect
import logging
import signal
from collections.abc import Generator, Iterator

import pytest
import uvloop
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

from tests.running.explore import EXAMPLES

pytest_plugins = ["tests.running.memory", "tests.running.results"]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # begun in the background: children would not hear Ctrl-C either
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A machine that is busy elsewhere fails no test, and two runs do the same; make explore chooses the other profile.
_BUSY = [HealthCheck.too_slow]
settings.register_profile("repeatable", deadline=None, derandomize=True, suppress_health_check=_BUSY)
settings.register_profile(
    "explore",
    deadline=None,
    suppress_health_check=_BUSY,
    print_blob=True,
    database=DirectoryBasedExampleDatabase(EXAMPLES),
    derandomize=False,  # which Hypothesis would be by itself where CI is set
)
settings.load_profile("repeatable")

ASYNC_TEST_S_MAX = 300  # of a test that waits for something that does not come; waits themselves end earlier
SHOWN = (
    "crash points tried",
    "operations that failed",
    "processes killed",
    "bits flipped",
    "mutations tried",
    "records found again",
    "acknowledged records checked",
    "damaged records found",
    "damaged records served",
    "acknowledged records lost",
    "random lives that broke a promise",
    "ledger messages",
    "ledger dead letters",
    "ledger duplicates",
    "ledger messages lost",
)


@pytest.fixture(scope="session", autouse=True)
def offsets_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Broadcasting members and Spark queries, also of child processes, write nothing into the user's home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYROMQ_OFFSETS_FOLDER", str(tmp_path_factory.mktemp("offsets")))
        patch.setenv("PYROMQ_PIPELINES_FOLDER", str(tmp_path_factory.mktemp("pipelines")))
        yield


@pytest.fixture(scope="session", autouse=True)
def no_console() -> Iterator[None]:
    """``pyromq up`` starts a console only in the tests that ask for one (``--console``)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYROMQ_UP_CONSOLE", "false")
        yield


@pytest.fixture(scope="session", autouse=True)
def no_contexts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Commands, also in child processes, do not read the user's contexts: they might talk to a real cluster."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        patch.delenv("PYROMQ_CONTEXT", raising=False)
        yield


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """For tests that break things: what the code logs about it would fill their reports."""
    caplog.set_level(logging.CRITICAL)


CANARY = "canary-5up3r-53cr37"
"""Part of passwords that tests of access control use: nothing that a test captures may show it."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Output and logs of every test are searched for the canary."""
    report = yield
    if report.passed and any(CANARY in text for _, text in report.sections):
        report.outcome = "failed"
        report.longrepr = f"a secret was printed or logged: {item.nodeid}"
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run ``async def test_…`` on a loop of its own, for a bounded time."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(pyfuncitem.obj(**arguments), ASYNC_TEST_S_MAX))
    return True


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None]:
    """Counts above pytest's own summary."""
    _report_counts(terminalreporter)
    yield


def _report_counts(terminalreporter: pytest.TerminalReporter) -> None:
    """Add up what tests recorded with ``record_property``."""
    totals: dict[str, int] = {}
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, value in report.user_properties:
                if name in SHOWN:
                    totals[name] = totals.get(name, 0) + int(value)
    if totals:
        terminalreporter.section("counts")
        for name in SHOWN:
            if name in totals:
                terminalreporter.write_line(f"{name + ':':34} {totals[name]:>10,}")
