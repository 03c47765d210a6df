"""The mount behaves as a file system does, for what a store does with one; then it forgets."""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from pyromq.store.message_store import MessageStore
from tests.faults.cluster import STORE
from tests.faults.forgetful.mount import ForgetfulMount, why_not
from tests.faults.forgetful.volume import PowerLoss

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(bool(why_not()), reason=f"no forgetful mount here, power loss was not tried: {why_not()}"),
]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[ForgetfulMount]:
    with ForgetfulMount(tmp_path / "disk") as found:
        yield found


def sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def test_files_are_what_they_are_on_another_file_system(mount: ForgetfulMount, tmp_path: Path) -> None:
    rng, ours, other = Random(1), mount.folder / "file", tmp_path / "file"
    for path in (ours, other):
        path.touch()
    with ours.open("r+b") as one, other.open("r+b") as two:
        for _ in range(300):
            offset, data = rng.randrange(300_000), rng.randbytes(rng.randrange(1, 40_000))
            size = rng.randrange(400_000) if rng.random() < 0.1 else None
            for file in (one, two):
                if size is not None:
                    os.ftruncate(file.fileno(), size)
                os.pwrite(file.fileno(), data, offset)
            begin = rng.randrange(300_000)
            assert os.pread(one.fileno(), 5_000, begin) == os.pread(two.fileno(), 5_000, begin)
    assert ours.read_bytes() == other.read_bytes()
    assert ours.stat().st_size == other.stat().st_size


def test_mappings_show_what_is_written_and_write_what_is_shown(mount: ForgetfulMount) -> None:
    path = mount.folder / "mapped"
    path.write_bytes(bytes(100_000))
    with path.open("r+b") as file:
        with mmap.mmap(file.fileno(), 100_000, prot=mmap.PROT_READ) as shown:
            assert shown[70_000] == 0
            os.pwrite(file.fileno(), b"written", 70_000)
            assert shown[70_000:70_007] == b"written"
        with mmap.mmap(file.fileno(), 100_000) as table:
            table[5:8] = b"map"
            os.fdatasync(file.fileno())
    sync_folder(mount.folder)
    mount.lose_power(PowerLoss.FORGET, 1)
    assert path.read_bytes()[5:8] == b"map", "fdatasync has what was written through the mapping"


def test_names_folders_and_errors(mount: ForgetfulMount) -> None:
    inner = mount.folder / "a" / "b"
    inner.mkdir(parents=True)
    for number in range(300):
        (inner / f"{number:03}").touch()
    assert sorted(each.name for each in inner.iterdir()) == [f"{number:03}" for number in range(300)]
    (inner / "000").rename(mount.folder / "moved")
    assert not (inner / "000").exists() and (mount.folder / "moved").exists()
    with pytest.raises(OSError) as caught:
        inner.rmdir()
    assert caught.value.errno == errno.ENOTEMPTY
    with (inner / "001").open("w+b") as file:
        file.write(b"still here")
        file.flush()
        (inner / "001").unlink()
        assert os.fstat(file.fileno()).st_nlink == 0
        assert os.pread(file.fileno(), 20, 0) == b"still here"
    assert os.statvfs(mount.folder).f_bavail > 0


def test_what_was_not_flushed_is_gone_with_the_power(mount: ForgetfulMount) -> None:
    kept, lost = mount.folder / "kept", mount.folder / "lost"
    with kept.open("wb") as file:
        file.write(b"kept")
        file.flush()
        os.fsync(file.fileno())
        sync_folder(mount.folder)
        file.write(b", and lost")
    lost.write_bytes(b"lost")
    assert kept.read_bytes() == b"kept, and lost"
    mount.lose_power(PowerLoss.FORGET, 1)
    assert kept.read_bytes() == b"kept"
    assert not lost.exists()


def test_a_store_is_opened_after_power_losses(mount: ForgetfulMount) -> None:
    for seed, mode in enumerate([*PowerLoss] * 2):
        with MessageStore.open(mount.folder / "store", STORE) as store:
            assert store.reader is not None
        mount.lose_power(mode, seed)
