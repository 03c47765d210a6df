"""A PostgreSQL server of our own, where Debian's is installed: loopback, a free port, a folder that goes at the end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyromq.testing import free_port


def program(name: str) -> str | None:
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return shutil.which(name, path=os.pathsep.join([*map(str, folders), os.environ.get("PATH", "")]))


@contextmanager
def postgres() -> Iterator[str]:
    """The address of a database, ``user@host:port/name``; skips where there is no server program."""
    initdb, server = program("initdb"), program("postgres")
    if initdb is None or server is None:
        pytest.skip("PostgreSQL is not installed (apt-get install postgresql): outboxes were not tried on it")
    port = free_port()
    user: dict[str, str] = {}
    if os.getuid() == 0:  # PostgreSQL refuses to run as root
        user = {"user": "postgres"}
    with tempfile.TemporaryDirectory(prefix="pyromq-postgres-") as made:
        if user:
            shutil.chown(made, "postgres")
        with _running(initdb, server, Path(made), port, user):
            yield f"shop@127.0.0.1:{port}/postgres"


@contextmanager
def _running(initdb: str, server: str, folder: Path, port: int, user: dict[str, str]) -> Iterator[None]:
    data = folder / "data"
    quick = ["-A", "trust", "-U", "shop", "--no-sync", "-E", "UTF8", "--locale=C"]
    subprocess.run([initdb, "-D", str(data), *quick], check=True, capture_output=True, cwd=folder, **user)  # type: ignore[call-overload]
    command = [server, "-D", str(data), "-p", str(port), "-c", "listen_addresses=127.0.0.1", "-k", str(folder), "-F"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=folder, **user)  # type: ignore[call-overload]
    try:
        for line in process.stderr:
            if b"ready to accept connections" in line:
                break
        else:
            raise AssertionError("PostgreSQL did not start")
        yield
    finally:
        process.send_signal(signal.SIGINT)  # does not wait for connections
        process.stderr.close()
        process.wait(30)
