"""The note in the checkpoint: how far the log is flushed, between two seals."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from pyromq.store.sealing.checkpoint import Checkpoint, FlushedNote, load_checkpoint, load_flushed, save_checkpoint
from pyromq.testing import FaultyDisk

PATH = Path("/data/checkpoint")


@pytest.fixture
def disk() -> FaultyDisk:
    made = FaultyDisk()
    save_checkpoint(made, PATH, Checkpoint(5, 5, 5, 100, 100))
    return made


def test_a_note_moves_the_position_and_leaves_the_times_of_the_seal(disk: FaultyDisk) -> None:
    FlushedNote(disk, PATH).write(200, 5)
    assert load_flushed(disk, PATH) == 200
    assert load_checkpoint(disk, PATH) == Checkpoint(5, 5, 5, 200, 200)


def test_what_is_noted_already_costs_nothing(disk: FaultyDisk) -> None:
    note = FlushedNote(disk, PATH)
    note.write(200, 5)
    before = disk.operations
    note.write(200, 5)
    assert disk.operations == before


def test_a_note_goes_into_the_file_that_a_seal_put_there_even_if_it_was_further_before(disk: FaultyDisk) -> None:
    note = FlushedNote(disk, PATH)
    note.write(200, 5)
    save_checkpoint(disk, PATH, Checkpoint(6, 6, 6, 150, 150))
    note.file_replaced(150)
    assert load_flushed(disk, PATH) == 150
    note.write(180, 6)
    assert load_flushed(disk, PATH) == 180


def test_a_disk_that_refuses_a_note_is_worth_a_warning(disk: FaultyDisk, caplog: pytest.LogCaptureFixture) -> None:
    note = FlushedNote(disk, PATH)
    disk.fail_at(disk.operations + 1, errno.EIO)
    note.write(200, 5)
    assert "not noted" in caplog.text and load_flushed(disk, PATH) == 0, "a torn note counts for nothing"
    note.write(300, 5)
    assert load_flushed(disk, PATH) == 300
