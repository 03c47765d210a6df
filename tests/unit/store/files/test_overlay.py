"""The overlay: what is written over a folder is seen, and the folder stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.store.files.overlay import OverlayDisk


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    (folder / "sub").mkdir(parents=True)
    (folder / "old").write_bytes(b"old bytes" + bytes(3_000_000))
    (folder / "sub" / "table.json").write_bytes(b"{}")
    (folder / "empty").write_bytes(b"")
    return folder


@pytest.fixture
def disk(root: Path, tmp_path: Path) -> OverlayDisk:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return OverlayDisk(root, scratch)


@pytest.fixture(autouse=True)
def untouched(root: Path) -> object:
    def content() -> dict[Path, tuple[int, bytes]]:
        return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in root.rglob("*") if path.is_file()}

    before = content()
    yield
    assert content() == before


def test_written_pages_are_seen_in_every_way_of_reading(disk: OverlayDisk, root: Path) -> None:
    file = disk.open(root / "old")
    file.write_at(4, b"new")
    file.write_parts(2_000_000, [b"ab", b"cd"])
    assert file.read_at(0, 9) == b"old newes" and bytes(file.map_once()[2_000_000:2_000_004]) == b"abcd"
    assert file.data_end(0) == 2_000_004
    file.scatter(2_500_000, {0: 1, 10: 0x01020304})
    assert file.read_at(2_500_000, 4) == b"\0\0\0\1" and file.read_at(2_500_040, 4) == b"\1\2\3\4"
    file.zero_from(5)
    assert file.data_end(0) == 5 and file.data_end(100) == 100 and file.read_at(0, 9) == b"old n\0\0\0\0"
    assert not file.is_removed() and file.is_at(root / "old")
    file.sync()
    file.close()


def test_an_empty_file_has_nothing_to_map(disk: OverlayDisk, root: Path) -> None:
    file = disk.open(root / "empty")
    assert file.size == 0 and file.map_once() == b"" and file.data_end(0) == 0
    file.close()


def test_names_are_those_of_both_folders(disk: OverlayDisk, root: Path) -> None:
    disk.create(root / "sub" / "created", 10).close()
    disk.write(root / "more" / "written", b"x")
    disk.remove(root / "sub" / "table.json")
    assert disk.names(root) == ["empty", "more", "old", "sub"]
    assert disk.names(root / "sub") == ["created"] and disk.names(root / "nothing") == []
    assert not disk.exists(root / "sub" / "table.json") and disk.is_folder(root / "more")
    with pytest.raises(FileNotFoundError):
        disk.read(root / "sub" / "table.json")
    disk.write(root / "sub" / "table.json", b"[]")
    assert disk.read(root / "sub" / "table.json") == b"[]" and disk.size_of(root / "sub" / "table.json") == 2


def test_a_file_is_replaced_by_rename(disk: OverlayDisk, root: Path) -> None:
    disk.write(root / "sub" / "table.json.tmp", b"new")
    disk.rename(root / "sub" / "table.json.tmp", root / "sub" / "table.json")
    assert disk.names(root / "sub") == ["table.json"] and disk.read(root / "sub" / "table.json") == b"new"
    disk.rename(root / "old", root / "sub" / "moved")
    assert not disk.exists(root / "old") and disk.read(root / "sub" / "moved").startswith(b"old bytes")


def test_a_resized_file_is_a_copy(disk: OverlayDisk, root: Path) -> None:
    disk.resize(root / "old", 3)
    assert disk.size_of(root / "old") == 3 and disk.read(root / "old") == b"old"
    file = disk.open(root / "old")
    file.write_at(0, b"OLD")
    file.close()
    assert disk.read(root / "old") == b"OLD"


def test_a_removed_folder_is_empty(disk: OverlayDisk, root: Path) -> None:
    disk.remove(root / "sub" / "table.json")
    disk.remove_folder(root / "sub")
    assert not disk.is_folder(root / "sub") and disk.names(root / "sub") == []
    assert disk.names(root) == ["empty", "old"]


def test_paths_outside_are_refused_and_no_lock_is_taken(disk: OverlayDisk, root: Path) -> None:
    with pytest.raises(ValueError, match="not in the subpath"):
        disk.write(root.parent / "elsewhere", b"x")
    disk.lock(root / "lock").release()
    assert not disk.is_locked(root / "lock") and disk.usage(root).total_bytes > 0
    disk.sync_folder(root)
