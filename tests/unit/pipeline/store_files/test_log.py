"""Commit log files and the stretches they are cut into."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from pyromq.errors import StoreNotFoundError
from pyromq.pipeline.store_files.log import (
    LogFile,
    LogStretch,
    log_files,
    plan_parts,
    stretch_size,
)
from tests.unit.pipeline.store_files.stores import rows


def test_a_log_that_was_never_written_to_is_empty(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / f"{0:020d}").write_bytes(bytes(4096))
    assert rows(tmp_path) == []


def test_a_folder_without_a_log_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreNotFoundError, match="no commitlog"):
        log_files(tmp_path)


@pytest.mark.parametrize(("mib", "stretch_mib"), [(1, 16), (400, 200), (8_000, 500)])
def test_stretches_fit_the_log_and_the_cores(mib: int, stretch_mib: int) -> None:
    assert stretch_size([LogFile(Path("x"), 0, mib << 20)], cores=2) == stretch_mib << 20


def test_no_stretch_is_a_leftover_of_a_few_bytes() -> None:
    file = LogFile(Path("x"), 0, (400 << 20) + 3)
    assert len(plan_parts([("a", file)], cores=4)) == 4


def test_parts_have_every_stretch_once_within_the_counts() -> None:
    files = [(name, LogFile(Path(f"/{name}/{base}"), base, 40 << 20)) for name in ("a", "b") for base in (0, 1 << 30)]
    by_cores = plan_parts(files, cores=2)
    assert [len(part) for part in by_cores] == [1] * 4
    assert [part[0].broker for part in by_cores] == ["a", "a", "b", "b"]
    for low, high, count in ((None, 3, 3), (10, None, 12), (10, 11, 11), (None, 100, 4)):
        parts = plan_parts(files, cores=2, count_min=low, count_max=high)
        assert len(parts) == count
        assert _bytes_of(stretch for part in parts for stretch in part) == _bytes_of(part[0] for part in by_cores)
    assert plan_parts([("a", LogFile(Path("/a"), 0, 0))], cores=2) == []


def _bytes_of(stretches: Iterable[LogStretch]) -> Counter[Path]:
    total: Counter[Path] = Counter()
    for stretch in stretches:
        total[stretch.path] += stretch.end - stretch.begin
    return total
