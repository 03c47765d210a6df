"""Servers as processes: a name server, a broker, or both on one loop (``pyromq up``).

Each prints one line when it is ready and serves until SIGTERM or SIGINT, then stops in order: clients are answered,
then name servers, the store is sealed. A broker with the setting ``drain_ms`` first stays so long without taking part
in new routes, so that producers leave it before it leaves them; a second signal ends that.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from pyromq.broker import following
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.broker import Broker
from pyromq.endpoint.endpoint import Endpoint, Shelter
from pyromq.endpoint.sources import MetricsSource
from pyromq.exporter.exporter import Exporter, ExporterSettings
from pyromq.failover.broker_control import BrokerBeside
from pyromq.failover.opening import open_lease_store
from pyromq.failover.record import BrokerStatus
from pyromq.failover.running import look_after
from pyromq.failover.sight import Timing
from pyromq.failover.store import LeaseStore
from pyromq.metrics.settings import MetricsSettings
from pyromq.nameserver.server import NameServer
from pyromq.nameserver.settings import NameServerSettings
from pyromq.net import Address
from pyromq.net.settings import TlsMode
from pyromq.operate.admin import Admin
from pyromq.security.settings import InnerCredentials, with_inner_credentials
from pyromq.service_manager import ServiceManager
from pyromq.waiting import set_within

logger = logging.getLogger(__name__)

_GC_THRESHOLD = 50_000  # objects of a broker live for a moment or for ever; looking for cycles often finds none

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_STOP_S = 60  # what a service manager is asked for beyond a drain


class Beside(Protocol):
    """Another process that begins and ends with the servers of this one, and its word in the ready line."""

    ready: str

    def running(self, nameserver: str, settings: NameServerSettings) -> AbstractAsyncContextManager[None]: ...

    def close(self) -> None: ...


def run_up(nameserver: NameServerSettings, broker: BrokerSettings, folder: Path, beside: Beside | None = None) -> None:
    """Both in one process. Raises StoreError, ConfigError when they cannot start."""
    try:
        _run(_serve(nameserver, broker, folder, beside))
    finally:
        if beside is not None:
            beside.close()


def run_nameserver(settings: NameServerSettings) -> None:
    _run(_serve(settings, None, None))


def run_broker(settings: BrokerSettings, folder: Path) -> None:
    _run(_serve(None, settings, folder))


def run_exporter(
    nameservers: str, asked: ExporterSettings, shown: MetricsSettings, *, insecure_network: bool = False
) -> None:
    """Metrics of a cluster. Raises ConfigError."""
    _run(_export(nameservers, asked, shown, Shelter(insecure_network=insecure_network)))


async def _export(nameservers: str, asked: ExporterSettings, shown: MetricsSettings, shelter: Shelter) -> None:
    stop = _stop_on_signals()
    async with AsyncExitStack() as stack:
        endpoint = await stack.enter_async_context(Endpoint(shown, shelter))
        admin = await stack.enter_async_context(Admin(nameservers))
        endpoint.add(await stack.enter_async_context(Exporter(admin, asked, labels=shown.label_values)))
        _say(["ready", f"metrics={endpoint.url}"])
        await stop.wait()


def run_follow(
    master: Address,
    folder: Path,
    *,
    host: str,
    port: int,
    take_over_at: Sequence[str] | None,
    signs_as: InnerCredentials | None = None,
) -> None:
    """A copy of a running broker; with name servers to ``take_over_at``, in its place when it is gone."""

    async def follow() -> None:
        stop = _stop_on_signals()
        settings = await following.settings_of_a_copy(master, host=host, port=port, signs_as=signs_as)
        await _follow(master, Broker(settings, folder), take_over_at, stop)

    _run(follow())


async def _follow(master: Address, broker: Broker, nameservers: Sequence[str] | None, stop: asyncio.Event) -> None:
    if nameservers is not None:
        following.check_take_over(broker)
    async with broker as copy:
        _say(["ready", f"broker={copy.address}", f"copies={master}"])
        stopped = asyncio.ensure_future(stop.wait())
        steps = asyncio.ensure_future(_take_over(copy, nameservers))
        await asyncio.wait((stopped, steps), return_when=asyncio.FIRST_COMPLETED)
        if steps.done():
            steps.result()
            await stopped
        steps.cancel()
        await asyncio.gather(steps, return_exceptions=True)


async def _take_over(copy: Broker, nameservers: Sequence[str] | None) -> None:
    await following.caught_up(copy)
    _say(["caught up", f"end={copy.store.end_position}"])
    if nameservers is not None:
        await following.master_gone(copy)
        await following.take_over(copy, nameservers)
        _say(["master", f"broker={copy.address}"])


def run_failover(store: str, broker: str, timing: Timing, *, ca_file: Path | None, hands_over: bool) -> None:
    """The agent beside a broker. Raises ConfigError, LeaseError."""
    _run(_look_after(store, broker, timing, ca_file, hands_over))


async def _look_after(store: str, broker: str, timing: Timing, ca_file: Path | None, hands_over: bool) -> None:
    stop = _stop_on_signals()

    def open_store(status: BrokerStatus) -> LeaseStore:
        return open_lease_store(store, status.cluster, status.name, ca_file=ca_file)

    def say_ready(status: BrokerStatus) -> None:
        _say(["ready", f"broker={status.address}", f"name={status.name}"])

    open_lease_store(store, "cluster", "broker", ca_file=ca_file)  # a wrong address fails before the broker answers
    async with BrokerBeside(broker) as beside:
        await look_after(beside, open_store, timing, stop, hands_over=hands_over, on_ready=say_ready)


def _stop_on_signals() -> asyncio.Event:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in _STOP_SIGNALS:
        loop.add_signal_handler(number, stop.set)
    return stop


def _say(words: list[str]) -> None:
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


async def _serve(
    nameserver: NameServerSettings | None,
    broker: BrokerSettings | None,
    folder: Path | None,
    beside: Beside | None = None,
) -> None:
    stop = _stop_on_signals()
    if nameserver is not None and broker is not None and nameserver.access.is_on:
        access = with_inner_credentials(broker.access)
        broker = replace(broker, access=access)
        nameserver = replace(nameserver, access=replace(nameserver.access, inner_credentials=access.inner_credentials))
    ready = ["ready"]
    manager = ServiceManager()
    running: Broker | None = None
    async with AsyncExitStack() as stack:
        stack.callback(manager.close)
        endpoint = await _endpoint(broker or nameserver, stack)  # first: it also says how the start goes
        if nameserver is not None:
            names = NameServer(nameserver)
            _show(endpoint, names)
            await stack.enter_async_context(names)
            ready.append(f"nameserver={names.address}")
            if broker is not None:
                broker = _registering_with(broker, str(names.address), nameserver)
        if broker is not None and folder is not None:
            running = Broker(broker, folder)
            _show(endpoint, running)
            await stack.enter_async_context(running)
            ready.append(f"broker={running.address}")
            if running.grpc_address is not None:
                ready.append(f"grpc={running.grpc_address}")
        if endpoint is not None and endpoint.url:
            ready.append(f"metrics={endpoint.url}")
        if beside is not None and nameserver is not None:
            await stack.enter_async_context(beside.running(str(names.address), nameserver))
            ready.append(beside.ready)
        gc.collect()
        gc.freeze()
        gc.set_threshold(_GC_THRESHOLD)
        _say(ready)
        manager.ready(" ".join(ready[1:]))
        await stop.wait()
        if running is not None and broker is not None and broker.drain_ms:
            stop.clear()
            await _drain(running, broker.drain_ms / 1000, stop, manager)
        manager.stopping()


async def _drain(broker: Broker, for_s: float, second_signal: asyncio.Event, manager: ServiceManager) -> None:
    manager.stopping(for_s=for_s + _STOP_S)
    manager.status(f"draining for {for_s:g} s")
    logger.info("draining: seconds=%g", for_s)
    await broker.leave_routes()
    await set_within(second_signal, for_s)


async def _endpoint(settings: BrokerSettings | NameServerSettings | None, stack: AsyncExitStack) -> Endpoint | None:
    """Metrics and health of the process, as its broker has it set, or its name server. Raises ConfigError."""
    assert settings is not None
    metrics = settings.metrics
    if not metrics.enabled and not metrics.otlp_endpoint:
        return None
    tls = settings.listener.tls.context() if metrics.tls else None
    endpoint = Endpoint(metrics, Shelter(tls, insecure_network=settings.insecure_network))
    return await stack.enter_async_context(endpoint)


def _show(endpoint: Endpoint | None, server: MetricsSource) -> None:
    if endpoint is not None:
        endpoint.add(server)


def _registering_with(broker: BrokerSettings, address: str, nameserver: NameServerSettings) -> BrokerSettings:
    """The name server of this process beside those given; where it insists on TLS, its own certificate is trusted."""
    if nameserver.tls_mode is TlsMode.ENFORCING and not broker.nameserver_tls:
        trusted = nameserver.tls_certificate_file
        broker = replace(
            broker, nameserver_tls=True, nameserver_tls_ca_file=trusted, nameserver_tls_check_hostname=False
        )
    return replace(broker, nameservers=tuple(dict.fromkeys((address, *broker.nameservers))))


def _run(coroutine: Coroutine[Any, Any, None]) -> None:
    before = {number: signal.getsignal(number) for number in _STOP_SIGNALS}
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(coroutine)
    finally:  # a loop of uvloop leaves its own behind, which call nobody any more
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
