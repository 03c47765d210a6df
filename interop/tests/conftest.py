"""Servers and clients for the tests, and the report of what they found.

``pytest -n 3 --dist loadfile`` runs three files at once, each with servers of its own, one make after the other. What
they found travels with their results.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import uvloop

from interop.apache import ApacheBroker, ApacheNameServer
from interop.driver import ClientUnderTest
from interop.drivers import LANGUAGES, Drivers
from interop.jars import Jars, prepare_jars
from interop.lacking import LACKING, NOT_OFFERED, Row
from interop.pyromq_server import PyroMQServer
from interop.report import Case, Report, column
from interop.world import Cluster, World

ASYNC_TEST_S_MAX = 90
CLIENTS_SECTION = "Clients × servers"
LADDER = "1s 3s 1s 2s 3s 4s 5s 6s 7s 8s 9s 10s 11s 12s 13s 14s 15s 16s"  # a failed message begins at level 3

_ORDER = pytest.StashKey[int]()
_NOTES = pytest.StashKey[list[str]]()
_FACTS = pytest.StashKey[list[str]]()
_CELL = "cell of the report"

Note = Callable[[str], None]
Fill = Callable[[Case], None]


def case(name: str, section: str = CLIENTS_SECTION) -> pytest.MarkDecorator:
    return pytest.mark.case(section, name)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--compatibility", metavar="FILE", help="write what was found to this file")
    parser.addoption("--keep-sections", action="store_true", help="and cells, where this run has nothing for them")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        gatherer = _Gatherer(config.getoption("--compatibility"), keep=config.getoption("--keep-sections"))
        config.pluginmanager.register(gatherer)
    config.addinivalue_line("markers", "case(section, name): a row of the report")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run ``async def test_…`` on a loop of its own, for a bounded time."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(pyfuncitem.obj(**arguments), ASYNC_TEST_S_MAX))
    return True


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for number, item in enumerate(items):
        item.stash[_ORDER] = number


def _pairing(item: pytest.Item) -> tuple[str, str]:
    callspec = getattr(item, "callspec", None)
    params = callspec.params if callspec else {}
    return params.get("client", ""), params.get("cluster", "") or params.get("running", "")


# --- the report ----------------------------------------------------------------------------------------------------


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    outcome = yield
    result: pytest.TestReport = outcome.get_result()
    marker = item.get_closest_marker("case")
    if marker is None or (result.when != "call" and result.passed):
        return
    verdict, reasons = _verdict(item, call, result)
    section, name = marker.args
    callspec = getattr(item, "callspec", None)
    shown = name.format(**callspec.params) if callspec and "{" in name else name
    cell = Case(section, shown, column(*_pairing(item)), verdict, reasons, (item.stash[_ORDER], 0))
    result.user_properties.append((_CELL, asdict(cell)))


def _verdict(item: pytest.Item, call: pytest.CallInfo[None], result: pytest.TestReport) -> tuple[str, list[str]]:
    notes = [*item.stash.get(_NOTES, [])]
    if result.skipped:
        lacks = getattr(result, "wasxfail", None)
        return ("–", [_text(call)]) if lacks is None else ("lacks", [lacks])
    if result.failed:
        return "fails", [*notes, _text(call)]
    return ("differs", notes) if notes else ("ok", [*item.stash.get(_FACTS, [])])


def _text(call: pytest.CallInfo[None]) -> str:
    text = str(call.excinfo.value).strip() if call.excinfo else ""
    return text.splitlines()[0][:200] if text else "no reason given"


class _Gatherer:
    """In the process where all results arrive: writes the report at the end."""

    def __init__(self, path: str | None, *, keep: bool) -> None:
        self._path, self._keep, self._report = path, keep, Report()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == _CELL and isinstance(value, dict):
                self._report.add(Case(**{**value, "order": tuple(value["order"])}))

    def pytest_sessionfinish(self) -> None:
        if self._path and len(self._report):
            self._report.write(Path(self._path), prepare_jars().version, keep=self._keep)


@pytest.fixture
def fill(request: pytest.FixtureRequest) -> Fill:
    """For tests that fill many cells."""

    def add(cell: Case) -> None:
        count = len(request.node.user_properties)
        placed = asdict(cell) | {"order": (request.node.stash[_ORDER], count)}
        request.node.user_properties.append((_CELL, placed))

    return add


@pytest.fixture
def note(request: pytest.FixtureRequest) -> Note:
    """Says how a case differs although it works."""
    return request.node.stash.setdefault(_NOTES, []).append  # type: ignore[no-any-return]


@pytest.fixture
def fact(request: pytest.FixtureRequest) -> Note:
    """Says more of a case that works: what was measured."""
    return request.node.stash.setdefault(_FACTS, []).append  # type: ignore[no-any-return]


@pytest.fixture(autouse=True)
def _known_lacks(request: pytest.FixtureRequest) -> None:
    """Skips what a client does not offer, and expects failures of what is lacking."""
    client, server = _pairing(request.node)
    name = getattr(request.node, "originalname", "")
    if row := _find(NOT_OFFERED, name, client, server):
        pytest.skip(row.reason)
    if row := _find(LACKING, name, client, server):
        request.applymarker(pytest.mark.xfail(reason=row.reason, strict=False))


def _find(rows: tuple[Row, ...], case: str, client: str, server: str) -> Row | None:
    return next((row for row in rows if row.matches(case, client, server)), None)


# --- servers and clients -------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def jars() -> Jars:
    return prepare_jars()


@contextmanager
def apache_cluster(jars: Jars, folder: Path, **options: str) -> Iterator[Cluster]:
    with ApacheNameServer(jars, folder / "namesrv") as names:
        broker = ApacheBroker(jars, folder / "broker", names.address, options=options)
        broker.start()
        try:
            yield Cluster("apache", names.address, broker.address)
        finally:
            broker.kill()  # its store is not needed, and a clean stop takes ten seconds


@contextmanager
def pyromq_cluster(folder: Path, **options: Any) -> Iterator[Cluster]:
    with PyroMQServer(folder, **options) as server:
        yield Cluster("pyromq", server.nameserver, server.address)


@pytest.fixture(scope="session", params=["apache", "pyromq"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, jars: Jars) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp(request.param)
    is_apache = request.param == "apache"
    options = {"messageDelayLevel": LADDER, "traceTopicEnable": "true", "timerPrecisionMs": "100"}
    with apache_cluster(jars, folder, **options) if is_apache else pyromq_cluster(folder, ladder=LADDER) as running:
        yield running


@pytest.fixture(scope="session")
def drivers(jars: Jars, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drivers]:
    each = Drivers(jars, tmp_path_factory.mktemp("drivers"))
    yield each
    each.close()


@pytest.fixture(params=LANGUAGES)
def client(request: pytest.FixtureRequest, drivers: Drivers) -> ClientUnderTest:
    return drivers.get(request.param)


@pytest.fixture
def world(client: ClientUnderTest, cluster: Cluster, drivers: Drivers) -> Iterator[World]:
    each = World(client, cluster, drivers)
    yield each
    each.close()
