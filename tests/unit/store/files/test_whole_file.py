from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path
from random import Random

import msgspec
import pytest

from pyromq.errors import CorruptFileError
from pyromq.store.files.whole_file import WholeFile, checked
from pyromq.testing import Crashed, CrashMode, FaultyDisk

PATH = Path("/store/config/table.json")
BACKUP = PATH.with_name("table.json.bak")
OLD, NEW = {"n": 1, "text": "old " * 200}, {"n": 2, "text": "new! " * 260}
ROUNDS = 25


def text(value: object) -> bytes:
    return msgspec.json.encode(value)


def parse(data: bytes) -> dict[str, object]:
    return msgspec.json.decode(data, type=dict[str, object])


def load(disk: FaultyDisk) -> dict[str, object] | None:
    return WholeFile(disk, PATH).load(parse)


def with_old(saves: int = 1) -> FaultyDisk:
    disk = FaultyDisk()
    for _ in range(saves):
        WholeFile(disk, PATH).save(text(OLD))
    return disk


def operations_of_save(disk: FaultyDisk) -> range:
    before = disk.operations
    WholeFile(disk, PATH).save(text(NEW))
    return range(before + 1, disk.operations + 1)


def test_what_was_saved_is_loaded_and_nothing_is_none() -> None:
    disk = FaultyDisk()
    assert load(disk) is None
    WholeFile(disk, PATH).save(text(OLD))
    assert load(disk) == OLD
    assert sorted(disk.names(PATH.parent)) == [PATH.name, BACKUP.name]


def test_the_previous_text_is_kept_and_used_when_the_newest_is_torn() -> None:
    disk = with_old()
    WholeFile(disk, PATH).save(text(NEW))
    assert checked(disk.read(BACKUP)) == text(OLD)
    disk.write(PATH, disk.read(PATH)[:-20])
    assert load(disk) == OLD


def test_a_damaged_newest_text_does_not_become_the_backup() -> None:
    disk = with_old()
    disk.flip_bit(PATH, 77)
    WholeFile(disk, PATH).save(text(NEW))
    assert checked(disk.read(BACKUP)) == text(OLD)


def test_the_checksum_is_one_more_field_of_ordinary_json() -> None:
    disk = with_old()
    stored = parse(disk.read(PATH))
    assert isinstance(stored.pop("crc32"), str)
    assert stored == OLD
    assert checked(disk.read(PATH)) == text(OLD)


@pytest.mark.parametrize("mode", CrashMode)
@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("saves_before", [0, 1, 2])
def test_a_crash_at_any_operation_leaves_the_old_or_the_new_text(
    mode: CrashMode, torn: bool, saves_before: int
) -> None:
    outcomes = []
    for operation in operations_of_save(with_old(saves_before)):
        for seed in range(ROUNDS if mode is CrashMode.MIX else 1):
            disk = with_old(saves_before)
            disk.crash_at(operation, torn=torn)
            with pytest.raises(Crashed):
                WholeFile(disk, PATH).save(text(NEW))
            found = load(disk.after_crash(mode, Random(seed)))
            assert found in ((OLD, NEW) if saves_before else (None, NEW)), (operation, seed)
            outcomes.append(found)
    assert len(outcomes) >= 6


@pytest.mark.parametrize("mode", CrashMode)
@pytest.mark.parametrize("first_damaged", [False, True])
def test_a_crash_while_one_copy_is_damaged_loses_nothing_either(mode: CrashMode, first_damaged: bool) -> None:
    for operation in operations_of_save(with_old()):
        for seed in range(ROUNDS if mode is CrashMode.MIX else 1):
            disk = with_old()
            disk.flip_bit(PATH if first_damaged else BACKUP, 77)
            disk.crash_at(operation)
            with suppress(Crashed):  # a damaged copy is not backed up: then there are fewer operations
                WholeFile(disk, PATH).save(text(NEW))
            after = disk.after_crash(mode, Random(seed))
            assert load(after) in (OLD, NEW), (operation, seed)


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_an_error_of_the_disk_at_any_operation_leaves_the_old_or_the_new_text(code: int) -> None:
    for operation in operations_of_save(with_old()):
        disk = with_old()
        disk.fail_at(operation, code)
        with pytest.raises(OSError, match="simulated failure"):
            WholeFile(disk, PATH).save(text(NEW))
        assert load(disk) in (OLD, NEW)
        WholeFile(disk, PATH).save(text(NEW))
        assert load(disk.after_crash()) == NEW


@pytest.mark.parametrize("mode", CrashMode)
def test_a_text_that_was_saved_is_durable(mode: CrashMode) -> None:
    disk = with_old()
    WholeFile(disk, PATH).save(text(NEW))
    assert all(load(disk.after_crash(mode, Random(seed))) == NEW for seed in range(ROUNDS))


@pytest.mark.parametrize("alone", [False, True])
def test_no_flipped_bit_gives_a_wrong_value(alone: bool) -> None:
    disk, value = FaultyDisk(), {"topic": "orders", "queues": [1, 2, 3], "offset": 4711}
    WholeFile(disk, PATH).save(text(value))
    if alone:
        disk.remove(BACKUP)
    for bit in range(8 * disk.size_of(PATH)):
        disk.flip_bit(PATH, bit)
        try:
            found = load(disk)
        except CorruptFileError:
            assert alone
        else:
            assert found is not None
            assert {name: found[name] for name in value} == value, bit
        disk.flip_bit(PATH, bit)


def test_every_cut_of_the_first_copy_leads_to_the_second() -> None:
    disk, value = FaultyDisk(), {"topic": "orders"}
    WholeFile(disk, PATH).save(text(value))
    whole = disk.read(PATH)
    for size in range(len(whole)):
        disk.write(PATH, whole[:size])
        assert load(disk) == value, size


def test_two_damaged_copies_are_an_error_that_names_the_file() -> None:
    disk = with_old()
    for path in (PATH, BACKUP):
        disk.flip_bit(path, 50)
    with pytest.raises(CorruptFileError, match=r"table\.json"):
        load(disk)


def test_a_text_without_checksum_as_rocketmq_writes_it_is_taken_as_it_is() -> None:
    disk = FaultyDisk()
    disk.write(PATH, b'{\n\t"n":1\n}')
    assert load(disk) == {"n": 1}
    disk.write(PATH, b'{\n\t"n":')
    with pytest.raises(CorruptFileError):
        load(disk)
    disk.write(BACKUP, b'{"n":0}')
    assert load(disk) == {"n": 0}


def test_an_empty_file_counts_as_none() -> None:
    disk = FaultyDisk()
    disk.write(PATH, b" \n")
    assert load(disk) is None
    disk.write(BACKUP, b'{"n":0}')
    assert load(disk) == {"n": 0}


def test_a_pretty_text_is_sealed_and_checked_too() -> None:
    disk = FaultyDisk()
    WholeFile(disk, PATH).save(b'{\n\t"n":1\n}\n')
    assert disk.read(PATH).startswith(b'{\n\t"n":1,"crc32":"')
    assert load(disk) == {"n": 1}
