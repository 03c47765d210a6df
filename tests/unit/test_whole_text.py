"""A text is there whole, old or new, wherever a save stops; what is damaged never becomes the backup."""

from __future__ import annotations

import errno
import logging
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from pyromq.errors import CorruptFileError
from pyromq.testing import Crashed, CrashMode, FaultyDisk
from pyromq.whole_text import SystemDisk, TextDisk, WholeText, replace_text

PATH = Path("/etc/table")
BACKUP = PATH.with_name("table.bak")
OLD, NEW = b"old " * 300 + b".", b"new! " * 400 + b"."
ROUNDS = 10


def is_whole(text: bytes) -> bool:
    return text.endswith(b".")


def parse(text: bytes) -> bytes:
    if not is_whole(text):
        raise ValueError("it is torn")
    return text


def opened(disk: TextDisk, path: Path = PATH, *, copied: bool = False) -> WholeText:
    return WholeText(path, is_whole, disk=disk, copied=copied)


def with_old(*, copied: bool, saves: int = 1) -> FaultyDisk:
    disk = FaultyDisk()
    for _ in range(saves):
        opened(disk, copied=copied).save(OLD)
    return disk


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("mode", CrashMode)
@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("saves", [0, 1, 2])
def test_a_crash_at_any_operation_leaves_the_old_or_the_new_text(
    copied: bool, mode: CrashMode, torn: bool, saves: int
) -> None:
    whole = with_old(copied=copied, saves=saves)
    before = whole.operations
    opened(whole, copied=copied).save(NEW)
    for operation in range(before + 1, whole.operations + 1):
        for seed in range(ROUNDS if mode is CrashMode.MIX else 1):
            disk = with_old(copied=copied, saves=saves)
            disk.crash_at(operation, torn=torn)
            with pytest.raises(Crashed):
                opened(disk, copied=copied).save(NEW)
            found = opened(disk.after_crash(mode, Random(seed))).load(parse)
            assert found in ((OLD, NEW) if saves else (None, NEW)), (operation, seed)


def test_an_error_of_the_disk_at_any_operation_leaves_the_old_or_the_new_text() -> None:
    whole = with_old(copied=False)
    before = whole.operations
    opened(whole).save(NEW)
    for operation in range(before + 1, whole.operations + 1):
        disk = with_old(copied=False)
        disk.fail_at(operation, errno.EIO)
        with suppress(OSError):
            opened(disk).save(NEW)
        assert opened(disk).load(parse) in (OLD, NEW)


@pytest.mark.parametrize("copied", [False, True])
def test_the_previous_text_is_the_backup_and_the_first_one_if_it_shall_be(copied: bool) -> None:
    disk = with_old(copied=copied)
    assert disk.exists(BACKUP) is copied
    opened(disk, copied=copied).save(NEW)
    assert (disk.read(PATH), disk.read(BACKUP)) == (NEW, OLD)
    assert sorted(disk.names(PATH.parent)) == [PATH.name, BACKUP.name]


def test_a_damaged_text_is_passed_over_and_never_becomes_the_backup(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    disk = with_old(copied=True)
    disk.write(PATH, NEW[:-1])
    assert opened(disk).load(parse) == OLD
    opened(disk).save(NEW)
    assert (disk.read(PATH), disk.read(BACKUP)) == (NEW, OLD)
    disk.write(PATH, b"x")
    disk.write(BACKUP, b"x")
    with pytest.raises(CorruptFileError, match="restore one of them"):
        opened(disk).load(parse)


def test_empty_files_and_none_are_no_text() -> None:
    disk = FaultyDisk()
    assert opened(disk).load(parse) is None
    disk.write(PATH, b" \n")
    assert opened(disk).load(parse) is None


def test_the_file_system_keeps_a_text_and_its_backup(tmp_path: Path) -> None:
    path = tmp_path / "made" / "on the way" / "table"
    text = WholeText(path, is_whole)
    text.save(OLD)
    text.save(NEW)
    assert text.load(parse) == NEW and path.with_name("table.bak").read_bytes() == OLD
    assert sorted(each.name for each in path.parent.iterdir()) == ["table", "table.bak"]


def test_a_text_is_flushed_before_it_is_renamed_and_its_folder_after(tmp_path: Path) -> None:
    steps: list[str] = []

    class Noting(SystemDisk):
        def write(self, path: Path, data: bytes) -> None:
            steps.append(f"write {path.name}")
            super().write(path, data)

        def rename(self, old: Path, new: Path) -> None:
            steps.append(f"rename {old.name} {new.name}")
            super().rename(old, new)

        def sync_folder(self, path: Path) -> None:
            steps.append(f"sync {path.name}")
            super().sync_folder(path)

    replace_text(tmp_path / "table", NEW, aside=tmp_path / "aside", disk=Noting())
    assert steps == ["write aside", "rename aside table", f"sync {tmp_path.name}"]
