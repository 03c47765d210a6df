"""TLS handshakes that stop half-way: their memory comes back, and others shake hands beside them."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hostile.rig import Victim, beside_honest_client, count, victim
from tests.hostile.test_connections import with_files_for

pytestmark = pytest.mark.integration

AT_ONCE = 50
GROWTH_MB_MAX = 50  # without a bound it is 150 and more
SETTLED_S = 30


def client_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def client_hello() -> bytes:
    """The first flight of a client, whole."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        client_context().wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


async def half_open(address: str, number: int, data: bytes) -> list[asyncio.StreamWriter]:
    host, port = address.rsplit(":", 1)
    writers: list[asyncio.StreamWriter] = []
    for begin in range(0, number, AT_ONCE):
        some = (asyncio.open_connection(host, int(port)) for _ in range(min(AT_ONCE, number - begin)))
        for _, writer in await asyncio.gather(*some):
            writer.write(data)
            writers.append(writer)
    return writers


async def shake_hands(address: str) -> None:
    host, port = address.rsplit(":", 1)
    _, writer = await asyncio.wait_for(asyncio.open_connection(host, int(port), ssl=client_context()), 60)
    writer.transport.abort()


async def settled_mb(server: Victim, most_mb: float) -> float:
    """What the process has when it has come down to that, or a while later."""
    for _ in range(SETTLED_S):
        if server.rss_mb <= most_mb:
            break
        await asyncio.sleep(1)
    return server.rss_mb


async def test_half_open_handshakes_leave_nothing_and_others_go_on(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    folder, number = tmp_path / "tls", with_files_for(count(1_500, 3_000))
    command = [sys.executable, "-m", "pyromq", "tls", "init", str(folder), "--host", "localhost"]
    await asyncio.to_thread(subprocess.run, command, check=True)
    files = {"certificate": folder / "server.pem", "key": folder / "server-key.pem"}
    flags = [word for name, path in files.items() for word in ("--set", f"broker.tls_{name}_file={path}")]
    async with victim(tmp_path, "--set", "broker.tls_mode=permissive", *flags) as server:
        what = "half-open handshakes of TLS, then gone"
        async with beside_honest_client(server, what, number, record_property) as attack:
            await shake_hands(server.broker)
            for _ in range(2):
                writers = await half_open(server.broker, number, client_hello())
                await shake_hands(server.broker)
                for writer in writers:
                    writer.transport.abort()
            await settled_mb(server, attack.before_mb + GROWTH_MB_MAX)
        assert attack.after_mb - attack.before_mb < GROWTH_MB_MAX
        assert server.log.count("during its handshake") < number / 10, "a flood is not a flood of lines"
