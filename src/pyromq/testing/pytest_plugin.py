"""The pytest plugin: a broker for a test, its clock, an app that runs with it, and a seed for what goes wrong.

    def test_a_customer_is_reminded(pyromq_broker): ...

    @pytest.mark.pyromq(sockets=False, faults=0.1)
    async def test_nothing_is_lost(pyromq_broker): ...

pytest imports this module in every run, also where nobody uses it: it imports nothing of PyroMQ but when a fixture is
used. In a coroutine test the broker starts on the test's own loop, right before the test, and stops right after it.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import zlib
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyromq.testing.broker_clock import BrokerClock
    from pyromq.testing.loopback import LoopbackBroker

_SEED_BITS = 32
_OPTIONS = ("virtual_time", "sockets", "clock", "settings", "delay_levels_ms", "folder", "disk", "seed", "faults")
_broker_key = pytest.StashKey["LoopbackBroker"]()
_apps_key = pytest.StashKey["Apps"]()
_seed_key = pytest.StashKey[int]()


# --- options ---------------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pyromq", "PyroMQ")
    group.addoption(
        "--pyromq-seed",
        type=int,
        metavar="N",
        help="replay what went wrong at random in the run that printed this seed",
    )
    parser.addini(
        "pyromq_virtual_time", "brokers of tests have virtual time (default: true)", type="bool", default=True
    )
    parser.addini("pyromq_sockets", "brokers of tests listen on sockets (default: true)", type="bool", default=True)
    parser.addini("pyromq_app", "the app under test, as module:attribute", default="")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "pyromq(virtual_time=, sockets=, faults=, clock=, settings=, delay_levels_ms=, folder=, disk=, seed=): "
        "how the broker of pyromq_broker is made; faults is a rate, options of faults.random, or a function of faults",
    )
    given = config.getoption("--pyromq-seed")
    inherited = getattr(config, "workerinput", {}).get(
        "pyromq_seed"
    )  # by the process that started this worker of xdist
    chosen = given if given is not None else inherited
    config.stash[_seed_key] = int.from_bytes(os.urandom(_SEED_BITS // 8), "big") if chosen is None else chosen


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give all workers of pytest-xdist one seed."""
    node.workerinput["pyromq_seed"] = node.config.stash[_seed_key]


def pytest_report_header(config: pytest.Config) -> str | None:
    seed: int | None = config.getoption("--pyromq-seed")
    return None if seed is None else f"pyromq: seed {seed}"


# --- fixtures --------------------------------------------------------------------------------------------------------


@pytest.fixture
def pyromq_broker_options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What ``LoopbackBroker`` is made with: the ini file, then marks from the module to the test."""
    config = request.config
    options: dict[str, Any] = {
        "virtual_time": config.getini("pyromq_virtual_time"),
        "sockets": config.getini("pyromq_sockets"),
        "seed": zlib.crc32(f"{config.stash[_seed_key]}/{request.node.nodeid}".encode()),
    }
    for mark in reversed(list(request.node.iter_markers("pyromq"))):
        if mark.args or not mark.kwargs.keys() <= set(_OPTIONS):
            unknown = [*map(repr, mark.args), *sorted(mark.kwargs.keys() - set(_OPTIONS))]
            raise pytest.UsageError(f"mark pyromq does not know {', '.join(unknown)}; it knows {', '.join(_OPTIONS)}")
        options |= mark.kwargs
    options.pop("faults", None)
    return options


@pytest.fixture
def pyromq_broker(request: pytest.FixtureRequest, pyromq_broker_options: dict[str, Any]) -> Iterator[LoopbackBroker]:
    """A name server and a broker for this test, with virtual time unless a mark or the ini file says otherwise."""
    from pyromq.testing.loopback import LoopbackBroker

    broker = LoopbackBroker(**pyromq_broker_options)
    request.node.stash[_broker_key] = broker
    for mark in request.node.iter_markers("pyromq"):
        if "faults" in mark.kwargs:
            _switch_on(broker, mark.kwargs["faults"])
            break
    if _is_coroutine_test(request.node):
        yield broker  # pytest_runtest_call opens it, on the loop of the test
        return
    with broker:
        yield broker


@pytest.fixture
def pyromq_clock(pyromq_broker: LoopbackBroker) -> BrokerClock:
    """The time of ``pyromq_broker``: ``now()``, ``now_ms()``, ``advance(hours=2)``, ``settle()``."""
    from pyromq.testing.broker_clock import BrokerClock

    return BrokerClock(pyromq_broker)


@pytest.fixture
def pyromq_app(request: pytest.FixtureRequest, pyromq_broker: LoopbackBroker) -> Iterator[Apps]:
    """``pyromq_app(app)`` runs an app with this test's broker until the test is over; ``await`` it in a coroutine."""
    apps = Apps(pyromq_broker, request.config.getini("pyromq_app"), is_async=_is_coroutine_test(request.node))
    request.node.stash[_apps_key] = apps
    with apps.stack:
        yield apps


class Apps:
    """The only place that knows what an app is: something with ``running(nameservers)``, a block it runs in."""

    def __init__(self, broker: LoopbackBroker, named: str, *, is_async: bool) -> None:
        self._broker = broker
        self._named = named
        self._is_async = is_async
        self.stack = ExitStack()
        self.async_stack = AsyncExitStack()

    def __call__(self, app: Any = None) -> Any:
        """The app, running. Without one, it is that of the ini file (``pyromq_app = module:attribute``)."""
        app = self._of_ini() if app is None else app
        block = app.running(self._broker.nameserver)
        if self._is_async:
            return self._run(app, block)
        self.stack.enter_context(block)
        return app

    async def _run(self, app: Any, block: Any) -> Any:
        await self.async_stack.enter_async_context(block)
        return app

    def _of_ini(self) -> Any:
        module, colon, attribute = self._named.partition(":")
        if not colon:
            raise pytest.UsageError(
                "which app? call pyromq_app(app), or say pyromq_app = module:attribute in the ini file"
            )
        return functools.reduce(getattr, attribute.split("."), importlib.import_module(module))


# --- tests -----------------------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Coroutine tests run inside of ``async with broker``, whoever runs them."""
    broker, apps = item.stash.get(_broker_key, None), item.stash.get(_apps_key, None)
    if broker is None or not isinstance(item, pytest.Function) or not inspect.iscoroutinefunction(item.obj):
        return (yield)
    plain = item.obj
    item.obj = _inside(broker, apps, plain)
    try:
        return (yield)
    finally:
        item.obj = plain


def _inside(broker: LoopbackBroker, apps: Apps | None, test: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    @functools.wraps(test)
    async def inside(*arguments: Any, **named: Any) -> Any:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(broker)
            if apps is not None:
                await stack.enter_async_context(apps.async_stack)
            return await test(*arguments, **named)

    return inside


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that failed shows what happened at its broker, and how to see it again."""
    report = yield
    broker = item.stash.get(_broker_key, None)
    if broker is not None and report.failed:
        report.sections.append(("PyroMQ", _story(broker, item.config.stash[_seed_key], item.nodeid)))
    return report


def _story(broker: LoopbackBroker, seed: int, nodeid: str) -> str:
    lines = [broker.timeline() or "nothing happened"]
    if broker.faults.happened:
        lines.append(f"{len(broker.faults.happened)} faults happened; replay: pytest --pyromq-seed {seed} {nodeid!r}")
    else:
        lines.append(f"seed {seed}")
    return "\n".join(lines)


def _is_coroutine_test(node: Any) -> bool:
    return inspect.iscoroutinefunction(getattr(node, "obj", None))


def _switch_on(broker: LoopbackBroker, faults: Any) -> None:
    if callable(faults):
        faults(broker.faults)
    elif isinstance(faults, dict):
        broker.faults.random(**faults)
    else:
        broker.faults.random(rate=faults)
