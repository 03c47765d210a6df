"""The console that ``pyromq up`` starts beside its servers: a process of its own, which ends with this one.

The socket is opened here, so that a port which was asked for and is taken is an error before anything starts, and so
that the ready line can name the address: connections wait in the socket until the console takes them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import socket

    from pyromq.nameserver.settings import NameServerSettings

logger = logging.getLogger(__name__)

_STOP_S_MAX: Final = 10
_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]", "::": "[::1]"}
_NEEDED: Final = ("starlette", "jinja2", "uvicorn")


def prepare_console(port: int | None, folder: Path, log: Sequence[str]) -> ConsoleBeside | None:
    """None where its packages are missing. Raises PortTakenError."""
    if missing := missing_packages():
        text = f"pyromq up: no console, {missing[0]} is missing: pip install 'pyromq[console]', or say --no-console"
        sys.stderr.write(f"{text}\n")
        return None
    from pyromq.console.listening import listening_socket, url_of
    from pyromq.console.settings import ConsoleSettings

    settings = ConsoleSettings(port=port)
    listening = listening_socket(settings)
    return ConsoleBeside(listening, url_of(listening, settings), folder / "console", log)


def missing_packages() -> list[str]:
    """What the extra ``console`` would bring."""
    return [name for name in _NEEDED if find_spec(name) is None]


class ConsoleBeside:
    """``ready`` is its word in the ready line; ``running`` is its life."""

    def __init__(self, listening: socket.socket, url: str, folder: Path, log: Sequence[str]) -> None:
        self._listening, self._folder, self._log = listening, folder, log
        self.ready = f"console={url}"

    @asynccontextmanager
    async def running(self, nameserver: str, settings: NameServerSettings) -> AsyncIterator[None]:
        """That it cannot start, or ends, is logged: the servers go on."""
        try:
            process = await self._start(_reachable(nameserver), settings)
        except OSError as error:
            logger.error("console not started: reason=%s", error)
            yield
            return
        watch = asyncio.ensure_future(_watch(process))
        try:
            yield
        finally:
            watch.cancel()
            await _stop(process)

    async def _start(self, nameserver: str, settings: NameServerSettings) -> Process:
        number = self._listening.fileno()
        command = ("-m", "pyromq", "console", "-n", nameserver, "--data", str(self._folder), *self._log)
        try:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, *command, "--beside-fd", str(number)),
                stdin=PIPE,
                stdout=DEVNULL,
                env={**_tls(settings), **_credentials(settings, os.environ), **os.environ},
                pass_fds=(number,),
                start_new_session=True,  # Ctrl-C in a terminal is for this process, which ends the other in its turn
            )
        finally:
            self._listening.close()

    def close(self) -> None:
        """Close the socket of a console that was never started."""
        self._listening.close()


async def _watch(process: Process) -> None:
    code = await process.wait()
    logger.warning("the console ended: exit_code=%d; start another with pyromq console", code)


async def _stop(process: Process) -> None:
    """The end of its standard input ends it."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        async with asyncio.timeout(_STOP_S_MAX):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _reachable(address: str) -> str:
    """Where a server that listens everywhere is found from here."""
    host, _, port = address.rpartition(":")
    return f"{_EVERYWHERE.get(host, host)}:{port}"


def _credentials(settings: NameServerSettings, environment: Mapping[str, str]) -> dict[str, str]:
    """With access control the console signs as the broker does: it has accounts and roles of its own, and shows them
    everything. Credentials of the environment take their place."""
    inner = settings.access.inner if settings.access.is_on else None
    if inner is None or environment.get("PYROMQ_ACCESS_KEY"):
        return {}
    return {"PYROMQ_ACCESS_KEY": inner.access_key, "PYROMQ_SECRET_KEY": inner.secret_key}


def _tls(settings: NameServerSettings) -> dict[str, str]:
    """Where the name server insists on TLS, its own certificate is trusted; the environment has the last word."""
    from pyromq.net.settings import TlsMode

    if settings.tls_mode is not TlsMode.ENFORCING or settings.tls_certificate_file is None:
        return {}
    return {
        "PYROMQ_TLS": "true",
        "PYROMQ_TLS_CA": str(settings.tls_certificate_file),
        "PYROMQ_TLS_CHECK_HOSTNAME": "false",
    }
