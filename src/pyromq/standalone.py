"""Servers as processes: a name server, a broker, or both on one loop (``pyromq up``).

Each prints one line when it is ready and serves until SIGTERM or SIGINT, then stops in order: clients are answered,
name servers told, the store sealed.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyromq.broker import following
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.broker import Broker
from pyromq.nameserver.server import NameServer
from pyromq.nameserver.settings import NameServerSettings
from pyromq.net import Address
from pyromq.net.settings import TlsMode
from pyromq.security.settings import with_inner_credentials

_GC_THRESHOLD = 50_000  # objects of a broker live for a moment or for ever; looking for cycles often finds none


def run_up(nameserver: NameServerSettings, broker: BrokerSettings, folder: Path) -> None:
    """Both in one process. Raises StoreError, ConfigError when they cannot start."""
    _run(_serve(nameserver, broker, folder))


def run_nameserver(settings: NameServerSettings) -> None:
    _run(_serve(settings, None, None))


def run_broker(settings: BrokerSettings, folder: Path) -> None:
    _run(_serve(None, settings, folder))


def run_follow(master: Address, folder: Path, *, host: str, port: int, take_over_at: Sequence[str] | None) -> None:
    """A copy of a running broker; with name servers to ``take_over_at``, in its place when it is gone."""
    _run(_follow(master, folder, host, port, take_over_at))


async def _follow(master: Address, folder: Path, host: str, port: int, nameservers: Sequence[str] | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    settings = await following.settings_of_a_copy(master, host=host, port=port)
    async with Broker(settings, folder) as copy:
        _say(f"ready broker={copy.address} copies={master}")
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
    _say(f"caught up end={copy.store.end_position}")
    if nameservers is not None:
        await following.master_gone(copy)
        await following.take_over(copy, nameservers)
        _say(f"master broker={copy.address}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def _serve(nameserver: NameServerSettings | None, broker: BrokerSettings | None, folder: Path | None) -> None:
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
