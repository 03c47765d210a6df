from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from pyromq.errors import StoreInUseError
from pyromq.store.files.disk import Disk, DiskUsage
from pyromq.testing import Crashed, CrashMode, FaultyDisk
from tests.running.processes import own_resident_mb

FOLDER = Path("/data")
FILE, OTHER = FOLDER / "file", FOLDER / "other"
PAGE = 512
SEEDS = range(60)


def durable_file(size: int = 16, data: bytes = b"") -> FaultyDisk:
    disk = FaultyDisk()
    file = disk.create(FILE, size)
    file.write_at(0, data)
    file.sync()
    disk.sync_folder(FOLDER)
    return disk


def survivors(disk: FaultyDisk, path: Path = FILE) -> set[bytes | None]:
    """What a file may hold after a crash of which anything may be left."""
    crashed = [disk.after_crash(CrashMode.MIX, Random(seed)) for seed in SEEDS]
    return {each.read(path) if each.exists(path) else None for each in crashed}


def names_after(disk: FaultyDisk, mode: CrashMode) -> list[str]:
    return disk.after_crash(mode).names(FOLDER)


# --- bytes ----------------------------------------------------------------------------------------------------------


def test_unsynced_bytes_are_seen_but_forgotten_or_kept_by_a_crash() -> None:
    disk = durable_file(4, b"old!")
    disk.open(FILE).write_at(0, b"new!")
    assert disk.read(FILE) == b"new!"
    assert disk.after_crash(CrashMode.FORGET).read(FILE) == b"old!"
    assert disk.after_crash(CrashMode.KEEP).read(FILE) == b"new!"
    assert survivors(disk) == {b"old!", b"new!"}


def test_synced_bytes_survive_every_crash() -> None:
    disk = durable_file(4, b"old!")
    file = disk.open(FILE)
    file.write_at(0, b"new!")
    file.sync()
    assert {disk.after_crash(mode).read(FILE) for mode in CrashMode} == {b"new!"}
    assert survivors(disk) == {b"new!"}


def test_a_mix_keeps_some_pages_and_drops_others_whatever_their_order() -> None:
    disk = durable_file(3 * PAGE, b"o" * 3 * PAGE)
    disk.open(FILE).write_at(0, b"n" * 3 * PAGE)
    kept = {"".join(chr(data[at]) for at in (0, PAGE, 2 * PAGE)) for data in survivors(disk) if data}
    assert {"ono", "non"} <= kept
    assert {data[:PAGE].strip(data[:1]) for data in survivors(disk) if data} == {b""}, "a page is whole"


def test_the_same_seed_leaves_the_same() -> None:
    disk = durable_file(3 * PAGE)
    disk.open(FILE).write_at(0, b"n" * 3 * PAGE)
    assert disk.after_crash(CrashMode.MIX, Random(7)).read(FILE) == disk.after_crash(CrashMode.MIX, Random(7)).read(
        FILE
    )


def test_a_view_shows_what_is_written_later_and_cannot_be_written() -> None:
    disk = durable_file(4)
    file = disk.open(FILE)
    view = file.map_once()
    file.write_at(1, b"ab")
    assert bytes(view) == b"\0ab\0"
    assert file.read_at(1, 2) == b"ab"
    assert view.readonly


def test_scattered_words_are_written_one_by_one() -> None:
    disk = durable_file(16)
    disk.open(FILE).scatter(4, {0: 1, 2: 258})
    assert disk.read(FILE) == bytes.fromhex("00000000 00000001 00000000 00000102")


def test_zeros_from_a_point_on_and_the_end_of_data() -> None:
    disk = durable_file(8, b"abcd\0e")
    file = disk.open(FILE)
    assert (file.data_end(0), file.data_end(5), file.data_end(6)) == (6, 6, 6)
    file.zero_from(2)
    assert (disk.read(FILE), file.data_end(0), file.data_end(3)) == (b"ab" + bytes(6), 2, 3)
    assert disk.after_crash(CrashMode.FORGET).read(FILE) == b"abcd\0e\0\0"


def test_a_file_opened_for_reading_cannot_be_changed() -> None:
    disk = durable_file(4)
    file = disk.open(FILE, writable=False)
    changes: list[Callable[[], None]] = [
        lambda: file.write_at(0, b"x"),
        lambda: file.scatter(0, {0: 1}),
        lambda: file.zero_from(0),
    ]
    for change in changes:
        with pytest.raises(OSError, match="reading only"):
            change()
    assert file.read_at(0, 4) == bytes(4)


def test_a_small_file_is_synced_by_write_but_replaced_in_place() -> None:
    disk = FaultyDisk()
    disk.write(FILE, b"old text")
    disk.sync_folder(FOLDER)
    disk.write(FILE, b"new")
    assert survivors(disk) == {b"new"}
    start = disk.operations
    disk.crash_at(start + 2)
    with pytest.raises(Crashed):
        disk.write(FILE, b"newest")
    assert disk.after_crash(CrashMode.KEEP).read(FILE) == b"", "cut, and not written again"
    assert disk.after_crash(CrashMode.FORGET).read(FILE) == b"new"


def test_resizing_cuts_or_adds_zeros() -> None:
    disk = durable_file(4, b"abcd")
    disk.resize(FILE, 2)
    disk.resize(FILE, 3)
    assert (disk.read(FILE), disk.size_of(FILE)) == (b"ab\0", 3)
    assert disk.after_crash().read(FILE) == b"abcd"


# --- names ----------------------------------------------------------------------------------------------------------


def test_a_new_name_is_durable_only_after_its_folder_was_synced() -> None:
    disk = FaultyDisk()
    disk.create(FILE, 4).sync()
    assert disk.exists(FILE)
    assert names_after(disk, CrashMode.FORGET) == []
    assert names_after(disk, CrashMode.KEEP) == ["file"]
    assert None in survivors(disk)
    disk.sync_folder(FOLDER)
    assert names_after(disk, CrashMode.FORGET) == ["file"]


def test_a_rename_is_durable_only_after_its_folder_was_synced() -> None:
    disk = durable_file(4, b"text")
    disk.rename(FILE, OTHER)
    assert disk.names(FOLDER) == ["other"]
    assert names_after(disk, CrashMode.FORGET) == ["file"]
    assert names_after(disk, CrashMode.KEEP) == ["other"]
    disk.sync_folder(FOLDER)
    assert names_after(disk, CrashMode.FORGET) == ["other"]


def test_renaming_over_a_name_leaves_the_old_or_the_new_file_under_it() -> None:
    disk = durable_file(3, b"old")
    disk.write(OTHER, b"new")
    disk.rename(OTHER, FILE)
    assert survivors(disk) == {b"old", b"new"}
    disk.sync_folder(FOLDER)
    assert survivors(disk) == {b"new"}


def test_a_removed_name_may_come_back_until_its_folder_was_synced() -> None:
    disk = durable_file(3, b"old")
    disk.remove(FILE)
    disk.remove(FILE)
    assert not disk.exists(FILE)
    assert survivors(disk) == {None, b"old"}
    disk.sync_folder(FOLDER)
    assert survivors(disk) == {None}


def test_folders_are_made_durable_and_removed_when_empty() -> None:
    disk = FaultyDisk()
    disk.create(FOLDER / "a" / "b" / "file", 1)
    assert disk.after_crash().is_folder(FOLDER / "a" / "b")
    assert not disk.is_folder(FOLDER / "a" / "b" / "file")
    with pytest.raises(OSError, match="not empty"):
        disk.remove_folder(FOLDER / "a")
    disk.remove(FOLDER / "a" / "b" / "file")
    disk.remove_folder(FOLDER / "a" / "b")
    assert disk.names(FOLDER / "a") == disk.names(Path("/nowhere")) == []


def test_missing_files_are_missing_as_on_a_real_disk() -> None:
    disk = durable_file()
    attempts: list[Callable[[], object]] = [
        lambda: disk.open(OTHER),
        lambda: disk.read(OTHER),
        lambda: disk.size_of(OTHER),
        lambda: disk.rename(OTHER, FILE),
        lambda: disk.rename(FILE, Path("/nowhere/file")),
        lambda: disk.sync_folder(Path("/nowhere")),
    ]
    for attempt in attempts:
        with pytest.raises(FileNotFoundError):
            attempt()
    assert disk.exists(FILE)


# --- faults ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("torn", "left"), [(False, b"\0\0\0\0"), (True, b"ab\0\0")])
def test_the_nth_operation_does_not_happen_or_half_of_it(torn: bool, left: bytes) -> None:
    disk = durable_file(4)
    disk.crash_at(disk.operations + 2, torn=torn)
    file = disk.open(FILE)
    file.sync()
    with pytest.raises(Crashed):
        file.write_at(0, b"abcd")
    with pytest.raises(Crashed):
        file.sync()
    assert disk.after_crash(CrashMode.KEEP).read(FILE) == left
    assert disk.after_crash(CrashMode.FORGET).read(FILE) == bytes(4)


def test_a_crash_cannot_be_caught_as_an_exception() -> None:
    assert not issubclass(Crashed, Exception)


def test_a_failed_write_leaves_its_first_half_and_the_next_one_works() -> None:
    disk = durable_file(4)
    disk.fail_at(disk.operations + 1, errno.ENOSPC)
    file = disk.open(FILE)
    with pytest.raises(OSError, match="simulated") as caught:
        file.write_at(0, b"abcd")
    assert caught.value.errno == errno.ENOSPC
    assert disk.read(FILE) == b"ab\0\0"
    file.write_at(0, b"abcd")
    assert disk.read(FILE) == b"abcd"


def test_a_failed_sync_makes_nothing_durable() -> None:
    disk = durable_file(4)
    file = disk.open(FILE)
    file.write_at(0, b"abcd")
    disk.fail_at(disk.operations + 1)
    with pytest.raises(OSError, match="simulated") as caught:
        file.sync()
    assert caught.value.errno == errno.EIO
    assert disk.after_crash().read(FILE) == bytes(4)
    disk.fail_syncs()
    for _ in range(2):
        with pytest.raises(OSError, match="broken"):
            file.sync()
    assert disk.after_crash().read(FILE) == bytes(4)
    disk.after_crash().open(FILE).sync()


def test_every_change_is_counted_and_reading_is_not() -> None:
    disk = FaultyDisk()
    file = disk.create(FILE, 4)
    file.write_at(0, b"a")
    file.sync()
    disk.sync_folder(FOLDER)
    expected = ["make_folder", "sync_folder", "create", "write", "sync", "sync_folder"]
    assert disk.log == expected
    assert disk.read(FILE)[:1] == bytes(file.map_once()[:1]) == file.read_at(0, 1) == b"a"
    assert (disk.names(FOLDER), disk.size_of(FILE), disk.modified_ms(FILE)) == (["file"], 4, 0)
    assert disk.operations == len(expected)


def test_a_hook_sees_every_operation_before_it_happens() -> None:
    disk, seen = durable_file(1), []
    disk.before_each(lambda kind: seen.append((kind, disk.read(FILE))))
    file = disk.open(FILE)
    file.write_at(0, b"a")
    file.sync()
    assert seen == [("write", b"\0"), ("sync", b"a")]


def test_a_flipped_bit_is_on_the_medium() -> None:
    disk = durable_file(2)
    disk.flip_bit(FILE, 9)
    assert disk.read(FILE) == disk.after_crash().read(FILE) == b"\0\x02"
    disk.flip_bit(FILE, 9)
    assert disk.read(FILE) == b"\0\0"


# --- space, time, locks ---------------------------------------------------------------------------------------------


def test_a_full_disk_refuses_writes_and_reservations_until_space_returns() -> None:
    disk = FaultyDisk(capacity_bytes=1_000)
    disk.other_bytes = 900
    file = disk.create(FILE, 10_000)
    file.write_at(0, b"x" * 50)
    assert disk.usage(FOLDER) == DiskUsage(1_000, 950, 50)
    assert disk.usage(FOLDER).used_percent == 95
    refused: list[Callable[[], object]] = [
        lambda: file.write_at(50, b"x" * 51),
        lambda: disk.write(OTHER, b"x" * 51),
        lambda: disk.create(OTHER, 100, reserve_bytes=60),
    ]
    for attempt in refused:
        with pytest.raises(OSError, match="full") as caught:
            attempt()
        assert caught.value.errno == errno.ENOSPC
    assert disk.after_crash().other_bytes == 900
    disk.other_bytes = 0
    file.write_at(50, b"x" * 51)
    assert disk.usage(FOLDER).used_bytes == 101


def test_zeros_take_no_space() -> None:
    disk = FaultyDisk(capacity_bytes=100)
    file = disk.create(FILE, 1_000_000)
    file.write_at(0, b"x" * 90)
    file.zero_from(10)
    assert disk.usage(FOLDER).used_bytes == 10


def test_a_large_file_takes_memory_for_what_is_written_only() -> None:
    """A store's first file has 1 GB by default: two versions of it on a disk in memory, and two after a crash."""
    before, size = own_resident_mb(), 1 << 30
    disk = FaultyDisk()
    file = disk.create(FILE, size)
    disk.sync_folder(FOLDER)
    disk.sync_folder(FOLDER.parent)
    file.write_at(0, b"first")
    file.write_at(1 << 20, b"later")
    file.sync()
    file.write_at(5, b"lost")
    for mode, first in ((CrashMode.FORGET, b"first\0\0\0\0"), (CrashMode.KEEP, b"firstlost")):
        found = disk.after_crash(mode).open(FILE)
        assert (found.size, found.read_at(0, 9), found.data_end(0)) == (size, first, (1 << 20) + 5)
        assert bytes(found.map_once()[1 << 20 : (1 << 20) + 6]) == b"later\0"
    assert own_resident_mb() - before < 64


def test_a_large_file_grows_is_cut_and_is_zeroed() -> None:
    disk = FaultyDisk()
    file = disk.create(FILE, 1 << 20)
    file.write_at(0, b"x" * 200_000)
    file.zero_from(150_000)
    assert (disk.size_of(FILE), file.data_end(0), file.data_end(160_000)) == (1 << 20, 150_000, 160_000)
    disk.resize(FILE, 140_000)
    assert disk.read(FILE) == b"x" * 140_000
    disk.resize(FILE, 300_000)
    assert disk.read(FILE) == b"x" * 140_000 + bytes(160_000)
    disk.write(FILE, b"y" * 400_000)
    assert disk.after_crash(CrashMode.KEEP).read(FILE) == b"y" * 400_000


def test_files_remember_when_they_were_written() -> None:
    now = [5]
    disk = FaultyDisk(clock_ms=lambda: now[0])
    file = disk.create(FILE, 4)
    now[0] = 9
    assert disk.modified_ms(FILE) == 5
    file.write_at(0, b"x")
    assert disk.modified_ms(FILE) == disk.after_crash(CrashMode.KEEP).modified_ms(FILE) == 9


def test_a_lock_is_held_by_one_and_ends_with_release_or_crash() -> None:
    disk = FaultyDisk()
    lock = disk.lock(FOLDER / "lock")
    with pytest.raises(StoreInUseError):
        disk.lock(FOLDER / "lock")
    disk.after_crash().lock(FOLDER / "lock")
    lock.release()
    disk.lock(FOLDER / "lock").release()
    assert disk.read(FOLDER / "lock") == b"lock"


def test_it_serves_wherever_a_disk_is_wanted() -> None:
    disk: Disk = durable_file()
    assert disk.exists(FILE)
    assert FaultyDisk().files() == []
