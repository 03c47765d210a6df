"""Our broker as a process: with the compiled core or without, of this checkout or of another one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyromq.compiled_core import SWITCH, core

MODES = ("core", "pure") if core else ("pure",)
STOP_S = 30


@dataclass(frozen=True, slots=True)
class OurBroker:
    pid: int
    nameserver: str
    port: int
    ready_s: float  # from its start


@contextmanager
def our_broker(flush: str, mode: str, *, source: str = "") -> Iterator[OurBroker]:
    """Broker and name server on free ports, with a folder that is gone afterwards; ``source`` is another ``src``."""
    folder = tempfile.mkdtemp(prefix="pyromq-bench-")
    command = [sys.executable, "-m", "pyromq", "up", "--no-console", "--data", folder, "--flush", flush]
    environment = {**os.environ, SWITCH: "1" if mode == "pure" else ""}
    if source:
        environment["PYTHONPATH"] = source
    started = time.perf_counter()
    process = subprocess.Popen(
        [*command, "--nameserver-port", "0", "--broker-port", "0"], stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert process.stdout is not None
        found = re.search(r"nameserver=(\S+) broker=127\.0\.0\.1:(\d+)", process.stdout.readline())
        assert found, "our broker did not start"
        yield OurBroker(process.pid, found[1], int(found[2]), time.perf_counter() - started)
    finally:
        process.terminate()
        process.wait(STOP_S)
        shutil.rmtree(folder, ignore_errors=True)
