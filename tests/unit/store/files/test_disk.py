from __future__ import annotations

import errno
import fcntl
import mmap
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyromq.errors import StoreInUseError
from pyromq.store.files.disk import Disk, DiskUsage, RealDisk

MEGABYTE = 1 << 20
LOCK_ELSEWHERE = """
import sys
from pathlib import Path
from pyromq.errors import StoreInUseError
from pyromq.store.files.disk import RealDisk
try:
    lock = RealDisk().lock(Path(sys.argv[1]))
except StoreInUseError:
    print("in use", flush=True)
else:
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def disk() -> RealDisk:
    return RealDisk()


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Let the kernel write only so far: a write across the limit is short, as it is on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Whatever is flushed by fsync, in order."""
    paths: list[Path] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        paths.append(Path(os.readlink(f"/proc/self/fd/{fd}")))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    return paths


# --- files ----------------------------------------------------------------------------------------------------------


def test_a_new_file_reads_as_zeros_and_takes_no_space(disk: RealDisk, tmp_path: Path) -> None:
    file = disk.create(tmp_path / "a" / "b" / "file", 64 * MEGABYTE)
    assert (file.size, disk.size_of(tmp_path / "a" / "b" / "file")) == (64 * MEGABYTE, 64 * MEGABYTE)
    assert bytes(file.map_once()[:100]) == file.read_at(63 * MEGABYTE, 100) == bytes(100)
    assert (tmp_path / "a" / "b" / "file").stat().st_blocks == 0
    file.close()


def test_only_the_reserved_part_takes_space_at_once(disk: RealDisk, tmp_path: Path) -> None:
    disk.create(tmp_path / "file", 64 * MEGABYTE, reserve_bytes=MEGABYTE).close()
    assert MEGABYTE <= (tmp_path / "file").stat().st_blocks * 512 < 2 * MEGABYTE


def test_creating_over_a_file_begins_with_zeros(disk: RealDisk, tmp_path: Path) -> None:
    disk.write(tmp_path / "file", b"old content")
    file = disk.create(tmp_path / "file", 4)
    assert (file.size, bytes(file.map_once())) == (4, bytes(4))
    file.close()


def test_a_file_that_could_not_be_created_is_not_left_behind(disk: RealDisk, tmp_path: Path) -> None:
    with file_size_limit(MEGABYTE), pytest.raises(OSError, match="large"):
        disk.create(tmp_path / "file", 2 * MEGABYTE)
    assert not disk.exists(tmp_path / "file")


def test_views_show_what_is_written_later_and_outlive_the_file(disk: RealDisk, tmp_path: Path) -> None:
    file = disk.create(tmp_path / "file", 8192)
    view = file.map_once()
    file.write_at(4094, b"abcd")
    assert bytes(view[4094:4098]) == file.read_at(4094, 4) == b"abcd"
    assert view.readonly
    file.sync()
    file.close()
    file.close()
    assert bytes(view[4094:4098]) == b"abcd"


def test_scattered_words_are_seen_by_every_way_of_reading(disk: RealDisk, tmp_path: Path) -> None:
    file = disk.create(tmp_path / "file", 8192, reserve_bytes=8192)
    file.scatter(40, {0: 1, 1000: 0x01020304})
    assert bytes(file.map_once()[40:44]) == file.read_at(40, 4) == b"\0\0\0\1"
    assert file.read_at(4040, 4) == b"\1\2\3\4"
    file.sync()
    file.close()


def test_a_file_opened_for_reading_cannot_be_written(disk: RealDisk, tmp_path: Path) -> None:
    disk.write(tmp_path / "file", b"text")
    file = disk.open(tmp_path / "file", writable=False)
    assert bytes(file.map_once()) == b"text"
    with pytest.raises(OSError, match="descriptor"):
        file.write_at(0, b"x")
    file.close()


def test_a_file_open_for_writing_is_read_where_only_files_open_for_reading_can_be_mapped(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on ext4 that turned read-only after an error."""
    plain = mmap.mmap

    def read_only(fd: int, size: int, **options: int) -> mmap.mmap:
        if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return plain(fd, size, **options)

    file = disk.create(tmp_path / "file", 4_096)
    file.write_at(7, b"here")
    monkeypatch.setattr(mmap, "mmap", read_only)
    opened = len(os.listdir("/proc/self/fd"))
    assert file.map_once()[7:11] == b"here"
    assert len(os.listdir("/proc/self/fd")) == opened + 1, "the mapping has one of its own, nothing else stays open"
    file.close()


def test_an_empty_file_has_an_empty_view(disk: RealDisk, tmp_path: Path) -> None:
    disk.write(tmp_path / "file", b"")
    file = disk.open(tmp_path / "file")
    assert (file.size, len(file.map_once()), file.data_end(0), file.read_at(0, 10)) == (0, 0, 0, b"")
    file.close()


def test_a_short_file_is_made_longer_with_zeros(disk: RealDisk, tmp_path: Path) -> None:
    disk.write(tmp_path / "file", b"abc")
    disk.resize(tmp_path / "file", 10)
    file = disk.open(tmp_path / "file")
    assert (file.size, bytes(file.map_once()), file.read_at(8, 100)) == (10, b"abc" + bytes(7), b"\0\0")
    file.close()


def test_a_write_that_the_disk_cuts_short_goes_on_or_says_why_not(disk: RealDisk, tmp_path: Path) -> None:
    file = disk.create(tmp_path / "file", 100)
    with file_size_limit(150):
        file.write_at(0, b"x" * 150)
        with pytest.raises(OSError, match="large") as caught:
            file.write_at(100, b"y" * 100)
    assert caught.value.errno == errno.EFBIG
    assert file.read_at(0, 300) == b"x" * 100 + b"y" * 50
    file.close()


def test_a_small_file_that_the_disk_cuts_short_is_an_error(disk: RealDisk, tmp_path: Path) -> None:
    with file_size_limit(10), pytest.raises(OSError, match="large"):
        disk.write(tmp_path / "file", b"x" * 20)


# --- the end of data ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [0, 1, 4095, 4096, 5 * MEGABYTE + 17, 8 * MEGABYTE - 1])
def test_the_end_of_data_is_found_wherever_it_is(disk: RealDisk, tmp_path: Path, at: int) -> None:
    file = disk.create(tmp_path / "file", 8 * MEGABYTE)
    assert file.data_end(0) == 0
    file.write_at(at, b"x")
    for synced in (False, True):
        assert file.data_end(0) == file.data_end(at) == at + 1
        assert file.data_end(min(at + 1, file.size)) == at + 1
        if not synced:
            file.sync()
    file.close()


def test_written_zeros_do_not_count_as_data_even_megabytes_of_them(disk: RealDisk, tmp_path: Path) -> None:
    file = disk.create(tmp_path / "file", 16 * MEGABYTE, reserve_bytes=MEGABYTE)
    file.write_at(100, b"abc")
    file.write_at(4096, bytes(3 * MEGABYTE))
    file.write_at(10 * MEGABYTE, bytes(8192))
    assert file.data_end(0) == 103
    assert file.data_end(103) == 103
    assert file.data_end(5 * MEGABYTE) == 5 * MEGABYTE
    file.close()


def test_zeros_that_take_space_are_given_back_and_the_file_keeps_its_size(disk: RealDisk, tmp_path: Path) -> None:
    path = tmp_path / "file"
    file = disk.create(path, 8 * MEGABYTE)
    file.write_at(0, b"x" * 5_000 + bytes(8 * MEGABYTE - 5_000))
    file.sync()
    file.release_from(5_000)
    file.sync()
    assert (disk.size_of(path), path.stat().st_blocks * 512 <= 8192) == (8 * MEGABYTE, True)
    assert file.data_end(0) == 5_000
    file.close()


def test_words_written_through_the_map_count_as_data(disk: RealDisk, tmp_path: Path) -> None:
    file = disk.create(tmp_path / "file", MEGABYTE, reserve_bytes=MEGABYTE)
    file.scatter(0, {50_000: 7})
    assert file.data_end(0) == 200_004
    file.close()


def test_a_file_system_that_knows_no_holes_is_read_to_the_end(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = disk.create(tmp_path / "file", 4 * MEGABYTE)
    file.write_at(3 * MEGABYTE, b"x")

    def lseek(fd: int, at: int, how: int) -> int:
        raise OSError(errno.EINVAL, "no such thing here")

    monkeypatch.setattr(os, "lseek", lseek)
    assert file.data_end(0) == 3 * MEGABYTE + 1
    file.close()


def test_everything_from_a_point_on_becomes_zeros_without_space(disk: RealDisk, tmp_path: Path) -> None:
    file = disk.create(tmp_path / "file", 2 * MEGABYTE)
    file.write_at(0, b"x" * MEGABYTE)
    view = file.map_once()
    file.zero_from(5000)
    assert (disk.size_of(tmp_path / "file"), file.data_end(0)) == (2 * MEGABYTE, 5000)
    assert bytes(view[4998:5002]) == b"xx\0\0"
    file.sync()
    assert (tmp_path / "file").stat().st_blocks * 512 <= 8192
    file.write_at(5000, b"y")
    assert bytes(view[4999:5002]) == b"xy\0"
    file.close()


# --- names ----------------------------------------------------------------------------------------------------------


def test_names_are_listed_sorted_and_what_is_no_folder_has_none(disk: RealDisk, tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        disk.write(tmp_path / name, b"")
    assert disk.names(tmp_path) == ["a", "b", "c"]
    assert disk.names(tmp_path / "missing") == disk.names(tmp_path / "a") == []
    assert disk.is_folder(tmp_path)
    assert not disk.is_folder(tmp_path / "a")


def test_files_are_renamed_over_others_and_removed_once_or_twice(disk: RealDisk, tmp_path: Path) -> None:
    disk.write(tmp_path / "old", b"1")
    disk.write(tmp_path / "new", b"2")
    disk.rename(tmp_path / "old", tmp_path / "new")
    assert (disk.names(tmp_path), disk.read(tmp_path / "new")) == (["new"], b"1")
    disk.remove(tmp_path / "new")
    disk.remove(tmp_path / "new")
    assert not disk.exists(tmp_path / "new")
    with pytest.raises(FileNotFoundError):
        disk.rename(tmp_path / "new", tmp_path / "old")


def test_only_empty_folders_are_removed(disk: RealDisk, tmp_path: Path) -> None:
    disk.write(tmp_path / "folder" / "file", b"")
    with pytest.raises(OSError, match="not empty"):
        disk.remove_folder(tmp_path / "folder")
    disk.remove(tmp_path / "folder" / "file")
    disk.remove_folder(tmp_path / "folder")
    assert disk.names(tmp_path) == []


def test_each_new_folder_is_durable_in_the_one_above(disk: RealDisk, tmp_path: Path, synced: list[Path]) -> None:
    disk.create(tmp_path / "a" / "b" / "file", 1).close()
    assert synced == [tmp_path, tmp_path / "a"]
    disk.create(tmp_path / "a" / "b" / "other", 1).close()
    assert synced == [tmp_path, tmp_path / "a"]


def test_a_small_file_and_a_folder_are_flushed(disk: RealDisk, tmp_path: Path, synced: list[Path]) -> None:
    disk.write(tmp_path / "file", b"text")
    disk.sync_folder(tmp_path)
    assert synced == [tmp_path / "file", tmp_path]
    assert disk.read(tmp_path / "file") == b"text"


def test_the_time_of_the_last_write_is_in_milliseconds(disk: RealDisk, tmp_path: Path) -> None:
    disk.write(tmp_path / "file", b"")
    os.utime(tmp_path / "file", ns=(0, 1_700_000_000_123_456_789))
    assert disk.modified_ms(tmp_path / "file") == 1_700_000_000_123


def test_the_usage_is_that_of_the_file_system(disk: RealDisk, tmp_path: Path) -> None:
    usage = disk.usage(tmp_path)
    assert usage.total_bytes >= usage.used_bytes + usage.free_bytes > 0
    assert 0 <= usage.used_percent <= 100


@pytest.mark.parametrize(
    ("usage", "percent"),
    [((1000, 0, 1000), 0), ((1000, 1, 999), 1), ((1000, 900, 100), 90), ((1000, 901, 99), 91), ((1000, 950, 0), 100)],
)
def test_the_used_part_is_rounded_up(usage: tuple[int, int, int], percent: int) -> None:
    assert DiskUsage(*usage).used_percent == percent
    assert DiskUsage(0, 0, 0).used_percent == 100


# --- the lock -------------------------------------------------------------------------------------------------------


def test_a_lock_is_held_once_in_a_process_by_whatever_path(disk: RealDisk, tmp_path: Path) -> None:
    lock = disk.lock(tmp_path / "store" / "lock")
    (tmp_path / "link").symlink_to(tmp_path / "store")
    for path in (tmp_path / "store" / "lock", tmp_path / "link" / "lock"):
        with pytest.raises(StoreInUseError, match="this process"):
            RealDisk().lock(path)
    assert disk.read(tmp_path / "store" / "lock") == b"lock"
    lock.release()
    lock.release()
    disk.lock(tmp_path / "store" / "lock").release()


def test_a_lock_keeps_other_processes_out_and_ends_with_its_process(disk: RealDisk, tmp_path: Path) -> None:
    command = [sys.executable, "-c", LOCK_ELSEWHERE, str(tmp_path / "lock")]
    lock = disk.lock(tmp_path / "lock")
    refused = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=60)
    assert refused.stdout == "in use\n"
    lock.release()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(StoreInUseError, match="another process"):
            disk.lock(tmp_path / "lock")
        holder.kill()
        holder.wait()
        disk.lock(tmp_path / "lock").release()


def test_a_lock_that_could_not_be_written_is_not_held(disk: RealDisk, tmp_path: Path) -> None:
    with file_size_limit(0), pytest.raises(OSError, match="large"):
        disk.lock(tmp_path / "lock")
    disk.lock(tmp_path / "lock").release()


def test_it_serves_wherever_a_disk_is_wanted(disk: RealDisk, tmp_path: Path) -> None:
    wanted: Disk = disk
    assert wanted.exists(tmp_path)


def test_a_folder_whose_name_could_not_be_synced_is_not_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = RealDisk()

    def refuse(path: Path) -> None:
        raise OSError(errno.EIO, "simulated")

    with monkeypatch.context() as patched:
        patched.setattr(disk, "sync_folder", refuse)
        with pytest.raises(OSError, match="simulated"):
            disk.create(tmp_path / "commitlog" / "0", 10)
    assert not (tmp_path / "commitlog").exists(), "the next attempt must not take it for durable"
    disk.create(tmp_path / "commitlog" / "0", 10).close()
