"""What a power loss leaves of a forgetful volume: everything that was flushed, by its mode some of the rest."""

from __future__ import annotations

import errno
import stat
from collections.abc import Iterator
from random import Random

import pytest

from tests.faults.forgetful.volume import PAGE, ROOT, SECTOR, Contents, PowerLoss, Resize, Volume, Write

FILE = stat.S_IFREG | 0o644
FOLDER = stat.S_IFDIR | 0o755


def contents(volume: Volume, name: bytes, folder: int = ROOT) -> bytes:
    node = volume.look_up(folder, name)
    return node.seen.read(0, node.seen.size)


def flushed_file(volume: Volume, name: bytes, data: bytes) -> int:
    node = volume.make(ROOT, name, FILE)
    node.change(Write(0, data))
    node.flush()
    volume.sync_folder(ROOT)
    return node.number


@pytest.fixture(params=range(20))
def rng(request: pytest.FixtureRequest) -> Iterator[Random]:
    yield Random(request.param)


@pytest.mark.parametrize("mode", PowerLoss)
def test_what_was_flushed_stays(mode: PowerLoss, rng: Random) -> None:
    volume = Volume()
    flushed_file(volume, b"log", b"first")
    folder = volume.make(ROOT, b"config", FOLDER)
    volume.sync_folder(ROOT)
    inner = volume.make(folder.number, b"topics", FILE)
    inner.change(Write(3 * PAGE + 7, b"inner"))
    inner.flush()
    volume.sync_folder(folder.number)
    left = volume.after_power_loss(mode, rng)
    assert contents(left, b"log") == b"first"
    assert contents(left, b"topics", folder.number) == bytes(3 * PAGE + 7) + b"inner"


def test_what_was_not_flushed_is_forgotten(rng: Random) -> None:
    volume = Volume()
    number = flushed_file(volume, b"log", b"first")
    volume.node(number).change(Write(5, b" second"))
    volume.make(ROOT, b"new", FILE).flush()  # its bytes, and not its name
    assert contents(volume, b"log") == b"first second"
    left = volume.after_power_loss(PowerLoss.FORGET, rng)
    assert contents(left, b"log") == b"first"
    with pytest.raises(OSError) as caught:
        left.look_up(ROOT, b"new")
    assert caught.value.errno == errno.ENOENT


def test_a_rename_that_no_folder_has_flushed_did_not_happen(rng: Random) -> None:
    volume = Volume()
    flushed_file(volume, b"table", b"old")
    aside = volume.make(ROOT, b"table.new", FILE)
    aside.change(Write(0, b"new"))
    aside.flush()
    volume.rename(ROOT, b"table.new", ROOT, b"table")
    assert contents(volume, b"table") == b"new"
    kept = volume.after_power_loss(PowerLoss.FORGET, rng)
    assert contents(kept, b"table") == b"old"


def test_a_file_has_its_old_contents_or_its_new_ones_when_it_was_flushed_before_the_rename(rng: Random) -> None:
    for mode in (PowerLoss.TORN, PowerLoss.REORDER):
        volume = Volume()
        flushed_file(volume, b"table", b"old")
        aside = volume.make(ROOT, b"table.new", FILE)
        aside.change(Write(0, b"new"))
        aside.flush()
        volume.rename(ROOT, b"table.new", ROOT, b"table")
        assert contents(volume.after_power_loss(mode, rng), b"table") in (b"old", b"new")


def test_without_the_flush_a_rename_may_come_before_its_contents() -> None:
    found = set()
    for seed in range(40):
        volume = Volume()
        flushed_file(volume, b"table", b"old")
        volume.make(ROOT, b"table.new", FILE).change(Write(0, b"new"))
        volume.rename(ROOT, b"table.new", ROOT, b"table")
        found.add(contents(volume.after_power_loss(PowerLoss.REORDER, Random(seed)), b"table"))
    assert found == {b"old", b"", b"new"}, "the mistake that a store must not make is seen"


def test_a_torn_write_has_its_first_sectors() -> None:
    sizes = set()
    for seed in range(60):
        volume = Volume()
        number = flushed_file(volume, b"log", b"")
        volume.node(number).change(Write(0, b"x" * (4 * SECTOR)))
        found = contents(volume.after_power_loss(PowerLoss.TORN, Random(seed)), b"log")
        assert found == b"x" * len(found)
        sizes.add(len(found))
    assert sizes == {0, SECTOR, 2 * SECTOR, 3 * SECTOR, 4 * SECTOR}


def test_a_later_write_may_survive_an_earlier_one() -> None:
    found = set()
    for seed in range(40):
        volume = Volume()
        number = flushed_file(volume, b"log", b"..")
        volume.node(number).change(Write(0, b"a"))
        volume.node(number).change(Write(1, b"b"))
        found.add(contents(volume.after_power_loss(PowerLoss.REORDER, Random(seed)), b"log"))
    assert found == {b"..", b"a.", b".b", b"ab"}


def test_removed_files_come_back_when_their_folder_was_not_flushed(rng: Random) -> None:
    volume = Volume()
    flushed_file(volume, b"log", b"first")
    volume.remove(ROOT, b"log")
    volume.collect()
    assert contents(volume.after_power_loss(PowerLoss.FORGET, rng), b"log") == b"first"


def test_a_removed_file_lives_as_long_as_somebody_has_it() -> None:
    volume = Volume()
    number = flushed_file(volume, b"log", b"first")
    volume.node(number).lookups = 1
    volume.remove(ROOT, b"log")
    volume.sync_folder(ROOT)
    volume.collect()
    assert volume.node(number).seen.size == 5
    volume.node(number).lookups = 0
    volume.collect()
    with pytest.raises(OSError, match="Stale"):
        volume.node(number)


def test_contents_are_those_of_a_plain_array(rng: Random) -> None:
    real, model = Contents(), bytearray()
    for _ in range(200):
        if rng.random() < 0.2:
            size = rng.randrange(5 * PAGE)
            real.apply(Resize(size))
            model = model[:size].ljust(size, b"\0")
        else:
            offset, data = rng.randrange(4 * PAGE), rng.randbytes(rng.randrange(1, 2 * PAGE))
            real.apply(Write(offset, data))
            model = model.ljust(offset, b"\0")
            model[offset : offset + len(data)] = data
        assert real.size == len(model)
        begin = rng.randrange(6 * PAGE)
        assert real.read(begin, PAGE) == bytes(model[begin : begin + PAGE])
