"""Servers as processes: a name server, a broker, or both on one loop (``pyromq up``).

Each prints one line when it is ready and serves until SIGTERM or SIGINT, then stops in order: clients are answered,
name servers told, the store sealed.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.broker import Broker
from pyromq.nameserver.server import NameServer
from pyromq.nameserver.settings import NameServerSettings
from pyromq.net.settings import TlsMode
from pyromq.security.settings import with_inner_credentials

_GC_THRESHOLD = 50_000  # objects of a broker live for a moment or for ever; looking for cycles often finds none


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


async def _serve(
    nameserver: NameServerSettings | None,
    broker: BrokerSettings | None,
    folder: Path | None,
    beside: Beside | None = None,
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if nameserver is not None and broker is not None and nameserver.access.is_on:
        access = with_inner_credentials(broker.access)
        broker = replace(broker, access=access)
        nameserver = replace(nameserver, access=replace(nameserver.access, inner_credentials=access.inner_credentials))
    ready = ["ready"]
    async with AsyncExitStack() as stack:
        if nameserver is not None:
            names = await stack.enter_async_context(NameServer(nameserver))
            ready.append(f"nameserver={names.address}")
            if broker is not None:
                broker = _registering_with(broker, str(names.address), nameserver)
        if broker is not None and folder is not None:
            running = await stack.enter_async_context(Broker(broker, folder))
            ready.append(f"broker={running.address}")
            if beside is not None and nameserver is not None:
                await stack.enter_async_context(beside.running(str(names.address), nameserver))
                ready.append(beside.ready)
        gc.collect()
        gc.freeze()
        gc.set_threshold(_GC_THRESHOLD)
        sys.stdout.write(" ".join(ready) + "\n")
        sys.stdout.flush()
        await stop.wait()


def _registering_with(broker: BrokerSettings, address: str, nameserver: NameServerSettings) -> BrokerSettings:
    """The name server of this process beside those given; where it insists on TLS, its own certificate is trusted."""
    if nameserver.tls_mode is TlsMode.ENFORCING and not broker.nameserver_tls:
        trusted = nameserver.tls_certificate_file
        broker = replace(
            broker, nameserver_tls=True, nameserver_tls_ca_file=trusted, nameserver_tls_check_hostname=False
        )
    return replace(broker, nameservers=tuple(dict.fromkeys((address, *broker.nameservers))))


def _run(coroutine: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(coroutine)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
