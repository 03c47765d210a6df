"""``pyromq up`` as a user starts it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyromq.store.check import StoreVerdict, check_store

pytestmark = pytest.mark.integration


@contextmanager
def up(data: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [
        sys.executable,
        "-m",
        "pyromq",
        "up",
        "--data",
        str(data),
        "--nameserver-port",
        "0",
        "--broker-port",
        "0",
    ]
    process = subprocess.Popen(
        [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        yield process, process.stdout.readline()
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(10)
        process.stdout.close()
        process.stderr.close()


def test_it_says_when_it_is_ready_and_where(tmp_path: Path) -> None:
    with up(tmp_path / "data") as (_, line):
        address = r"127\.0\.0\.1:\d+"
        assert re.fullmatch(rf"ready nameserver={address} broker={address} metrics=http://{address}/metrics\n", line)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with up(tmp_path / "data") as (process, line):
        assert line.startswith("ready")
        process.send_signal(number)
        assert process.wait(15) == 0
    assert not (tmp_path / "data" / "abort").exists()
    assert check_store(tmp_path / "data").verdict is StoreVerdict.SOUND


def test_a_second_one_on_the_same_folder_is_refused_clearly(tmp_path: Path) -> None:
    with up(tmp_path / "data") as (_, line):
        assert line.startswith("ready")
        with up(tmp_path / "data") as (second, nothing):
            assert nothing == ""
            assert second.wait(15) == 3
            assert second.stderr is not None
            assert "is in use by another process; stop it, or choose another data folder" in second.stderr.read()


def test_a_taken_port_is_refused_clearly(tmp_path: Path) -> None:
    with up(tmp_path / "one") as (_, line):
        port = line.partition(" broker=127.0.0.1:")[2].split()[0]
        with up(tmp_path / "two", "--broker-port", port) as (second, nothing):
            assert nothing == ""
            assert second.wait(15) == 1
            assert second.stderr is not None
            assert port in second.stderr.read()
