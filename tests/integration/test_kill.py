"""A real process, killed with SIGKILL at random moments under load, opening and recovering included."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from pyromq.store.message_store import MessageStore
from tests.crash.script import check_agreement, log_records
from tests.integration.writer import SETTINGS

ROUNDS = int(os.environ.get("PYROMQ_CRASH_ROUNDS", "8"))  # make test-more has 32, make crash 500
LANES = 2
ROUNDS_PER_FOLDER = 4

pytestmark = [pytest.mark.integration, pytest.mark.both_modes, pytest.mark.rounds]


def run_and_kill(folder: Path, seed: int, after_s: float, *, writes_first: bool) -> int:
    """Start a writer, kill it, and return how many messages it said were durable (0 when it said nothing).

    With ``writes_first`` the time counts from its first write, however long the machine takes to get there; else from
    where its imports end, so that opening and recovering are hit, too.
    """
    command = [sys.executable, "-m", "tests.integration.writer", str(folder), str(seed)]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])
    assert writer.stdout is not None
    said = [b""]
    try:
        assert writer.stdout.readline() == b"0\n"  # its imports are done
        if writes_first:
            said = [writer.stdout.readline().strip(), b""]
        time.sleep(after_s)  # the fault itself: the moment of death is random, nothing waits for a result
    finally:
        writer.send_signal(signal.SIGKILL)
        said = said[:-1] + writer.stdout.read().split(b"\n")
        writer.stdout.close()
        assert writer.wait(60) == -signal.SIGKILL, "the writer ended by itself"
    return int(said[-2]) if len(said) > 1 else 0


@pytest.mark.parametrize("lane", range(LANES))
def test_a_killed_process_loses_nothing_acknowledged(
    lane: int, tmp_path: Path, caplog: pytest.LogCaptureFixture, record_property: Callable[[str, object], None]
) -> None:
    caplog.set_level(logging.CRITICAL)
    rng, checked, kills = Random(lane), 0, ROUNDS // LANES
    folder, durable = tmp_path / "store", 0
    for number in range(kills):
        if number % ROUNDS_PER_FOLDER == 0:
            shutil.rmtree(folder, ignore_errors=True)
            durable = 0
        after_s, writes_first = rng.uniform(0.0, 0.5), number % ROUNDS_PER_FOLDER != 1
        durable = max(durable, run_and_kill(folder, 1000 * lane + number, after_s, writes_first=writes_first))
        if not folder.exists():
            continue
        with MessageStore.open(folder, SETTINGS) as store:
            numbers = [int(record.body.split(b";")[0]) for record in log_records(store)]
            record_property("acknowledged records lost", len(set(range(durable)) - set(numbers)))
            assert numbers == list(range(len(numbers))), f"lane {lane}, round {number}: a gap-free run"
            assert len(numbers) >= durable, f"lane {lane}, round {number}: lost {durable - len(numbers)} messages"
            check_agreement(store)
            checked += durable
    assert checked > 100, "the writers hardly wrote anything"
    record_property("processes killed", kills)
    record_property("acknowledged records checked", checked)


def test_a_second_process_is_refused_while_the_first_lives(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "store", SETTINGS):
        command = [sys.executable, "-m", "tests.integration.writer", str(tmp_path / "store"), "1"]
        second = subprocess.run(command, capture_output=True, text=True, timeout=90, cwd=Path(__file__).parents[2])
    assert second.returncode == 1
    assert "is in use by another process; stop it, or choose another data folder" in second.stderr
