"""Shared clients of this process, one for each cluster and identity: opened when first needed, kept for the next task.

Spark uses a Python worker for many tasks, and what a module keeps lives as long as the worker. A child of a fork begins
with none; a client that was closed is replaced.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pyromq.client.core import client as aio_client
from pyromq.client.core.settings import ClientSettings, Credentials
from pyromq.client.sync.faces import Client
from pyromq.client.sync.loop_thread import LoopThread, Waiter, loop_thread
from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.core.workers import settle

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Connected:
    """An open client and the thread whose loop it lives on."""

    face: Client
    thread: LoopThread

    @property
    def client(self) -> aio_client.Client:
        """To be touched on the loop's thread only, but for its settings and names."""
        return self.face.inner

    @property
    def is_usable(self) -> bool:
        return self.thread is loop_thread() and self.client.is_open

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        return self.thread.call(work)

    def begin(self, work: Coroutine[Any, Any, T]) -> Waiter[T]:
        """Starts the work and returns at once; ``wait()`` for its outcome, or let it go."""
        waiter: Waiter[T] = Waiter()

        def start() -> None:
            asyncio.get_running_loop().create_task(work).add_done_callback(waiter.settle)

        self.thread.soon(start)
        return waiter


_open: dict[tuple[int, ClientSettings], Connected] = {}


def connect(options: SourceOptions) -> Connected:
    """The client for these options; nothing is asked of any server yet. Raises ConfigError."""
    key = os.getpid(), client_settings(options)
    found = _open.get(key)
    if found is None or not found.is_usable:
        face = Client(key[1])
        face.open()
        found = _open[key] = Connected(face, loop_thread())
        settle()
    return found


def close_all() -> None:
    """Closes them, for a process that goes on without; a later ``connect`` opens a new one."""
    while _open:
        _, connected = _open.popitem()
        if connected.is_usable:
            connected.face.close()


def client_settings(options: SourceOptions) -> ClientSettings:
    """Settings of the client from options of the source. Raises ConfigError."""
    credentials = None
    if options.access_key:
        credentials = Credentials(options.access_key, options.secret_key, options.security_token)
    return ClientSettings(
        nameservers=options.nameserver,
        namespace=options.namespace,
        request_timeout_ms=options.request_ms,
        route_poll_ms=options.discovery_ms,
        credentials=credentials,
        tls=_tls(options),
    )


def _tls(options: SourceOptions) -> Any:
    detailed = options.tls_ca or options.tls_certificate or options.tls_hostname or not options.tls_verify
    if options.tls is False or not detailed:
        return options.tls
    from pyromq.settings import TlsSettings  # all of its neighbours come along: only for those who need it

    return TlsSettings(
        ca_file=Path(options.tls_ca) if options.tls_ca else None,
        certificate_file=Path(options.tls_certificate) if options.tls_certificate else None,
        key_file=Path(options.tls_key) if options.tls_key else None,
        verify=options.tls_verify,
        hostname=options.tls_hostname,
    )
