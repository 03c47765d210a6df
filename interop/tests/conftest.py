"""Servers and clients for the tests, at most one pair of servers at a time, and the report of what they found."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvloop

from interop.apache import ApacheBroker, ApacheNameServer
from interop.jars import Jars, prepare_jars
from interop.java_client import JavaClient
from interop.pyromq_server import PyroMQServer
from interop.report import Case, Report

ASYNC_TEST_S_MAX = 90
_REPORT = pytest.StashKey[Report]()
_NOTES = pytest.StashKey[list[str]]()

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Cluster:
    """A name server and a broker of one make."""

    make: str
    nameserver: str
    broker: str


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--compatibility", metavar="FILE", help="write what was found to this file")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_REPORT] = Report()
    config.addinivalue_line("markers", "case(section, name): a row of the report")
    config.addinivalue_line("markers", "lacking(make, reason): fails with that server today")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run ``async def test_…`` on a loop of its own, for a bounded time."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(pyfuncitem.obj(**arguments), ASYNC_TEST_S_MAX))
    return True


# --- the report ----------------------------------------------------------------------------------------------------


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.StashKey[Report], None]:
    outcome = yield
    result: pytest.TestReport = outcome.get_result()  # type: ignore[attr-defined]
    marker = item.get_closest_marker("case")
    if marker is None or (result.when != "call" and result.passed):
        return
    section, name = marker.args
    notes = [*item.stash[_NOTES]] if _NOTES in item.stash else []
    verdict = "differs" if notes else "ok"
    if hasattr(result, "wasxfail"):
        verdict, notes = "expected", [result.wasxfail]
    elif result.failed:
        verdict = "fails"
        notes.append(str(call.excinfo.value).strip().splitlines()[0][:200] if call.excinfo else "")
    elif result.skipped:
        return
    callspec = getattr(item, "callspec", None)
    names = dict(callspec.params) if callspec else {}
    pairing = marker.kwargs.get("pairing") or names.get("cluster", "")
    shown = name.format(**names) if "{" in name else name
    item.config.stash[_REPORT].add(Case(section, shown, str(pairing), verdict, notes))


def pytest_sessionfinish(session: pytest.Session) -> None:
    path, report = session.config.getoption("--compatibility"), session.config.stash[_REPORT]
    if path and report.cases:
        report.write(Path(path), prepare_jars().version)


@pytest.fixture(scope="session")
def report(pytestconfig: pytest.Config) -> Report:
    """For tests that fill many rows."""
    return pytestconfig.stash[_REPORT]


@pytest.fixture
def note(request: pytest.FixtureRequest) -> Note:
    """Says how a case differs although it works."""
    return request.node.stash.setdefault(_NOTES, []).append  # type: ignore[no-any-return]


@pytest.fixture(autouse=True)
def _known_lacks(request: pytest.FixtureRequest) -> None:
    """Turn ``lacking`` into an expected failure for the server it names."""
    callspec = getattr(request.node, "callspec", None)
    make = callspec.params.get("cluster") if callspec else None
    for marker in request.node.iter_markers("lacking"):
        if marker.args[0] == make:
            request.applymarker(pytest.mark.xfail(reason=marker.args[1], strict=False))


# --- servers and clients -------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def jars() -> Jars:
    return prepare_jars()


@contextmanager
def apache_cluster(jars: Jars, folder: Path) -> Iterator[Cluster]:
    with ApacheNameServer(jars, folder / "namesrv") as names:
        broker = ApacheBroker(jars, folder / "broker", names.address)
        broker.start()
        try:
            yield Cluster("apache", names.address, broker.address)
        finally:
            broker.kill()  # nobody needs its store, and a clean stop takes ten seconds


@contextmanager
def pyromq_cluster(folder: Path) -> Iterator[Cluster]:
    with PyroMQServer(folder) as server:
        yield Cluster("pyromq", server.nameserver, server.address)


@pytest.fixture(scope="session", params=["apache", "pyromq"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, jars: Jars) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp(request.param)
    with apache_cluster(jars, folder) if request.param == "apache" else pyromq_cluster(folder) as running:
        yield running


@pytest.fixture(scope="session")
def java(jars: Jars, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClient]:
    with JavaClient(jars, tmp_path_factory.mktemp("java")) as client:
        yield client
