"""Keys wait in log order, in however many pieces they were staged, and reach the index once."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyromq.store.derived.indexer import Indexer
from pyromq.store.derived.key_index import KeyIndex, Unindexed
from pyromq.store.files.health import DiskHealth
from pyromq.store.log.commit_log import CommitLog

_WAITING_MAX = 50


class Index:
    """Keeps the positions that it is given; a hashed key is one, as text, with a space behind it."""

    def __init__(self) -> None:
        self.found: list[int] = []
        self.refuses = False

    def add(self, messages: list[Unindexed]) -> None:
        self._take([position for _, _, position, _ in messages])

    def add_hashed(self, keys: bytes) -> None:
        self._take([int(each) for each in keys.split()])

    def _take(self, positions: list[int]) -> None:
        if self.refuses:
            raise OSError(28, "no space")
        self.found += positions


class Rig:
    def __init__(self) -> None:
        self.index, self.log = Index(), SimpleNamespace(end=0)
        self.indexer = Indexer(
            cast(KeyIndex, cast(Any, self.index)), cast(CommitLog, self.log), DiskHealth(), 0, _WAITING_MAX
        )
        self.staged_end = 0
        self.committed: list[int] = []
        self._staged: list[int] = []

    def stage(self, *, hashed: int = 0) -> None:
        """A message, or so many whose keys are hashed."""
        positions = range(self.staged_end, self.staged_end + (hashed or 1))
        self.staged_end += len(positions)
        self._staged += positions
        if hashed:
            self.indexer.stage_hashed(b"".join(b"%d " % each for each in positions), hashed, positions[0])
        else:
            self.indexer.staged.append((b"", b"", positions[0], 0))

    def commit(self) -> bool:
        self.committed += self._staged
        self._staged, self.log.end = [], self.staged_end
        return self.indexer.commit()

    def drop(self) -> None:
        self._staged, self.staged_end = [], self.log.end
        self.indexer.drop_staged()

    def check(self) -> None:
        found = self.index.found
        assert found == self.committed[: len(found)], "in log order, each once, and only what is committed"
        assert self.indexer.position <= (
            self.committed[len(found)] if len(found) < len(self.committed) else self.log.end
        )


@pytest.mark.parametrize("seed", range(20))
def test_everything_committed_is_indexed_once_and_in_order(seed: int) -> None:
    rng, rig = Random(seed), Rig()
    for _ in range(600):
        match rng.randrange(12):
            case 0 | 1 | 2 | 3 | 4:
                rig.stage(hashed=rng.choice((1, 1, 1, 7, 300)))
            case 5:
                rig.stage()
            case 6 | 7 | 8:
                is_much = rig.commit()
                assert is_much == (len(rig.committed) - len(rig.index.found) >= _WAITING_MAX)
            case 9:
                rig.drop()
            case 10:
                rig.index.refuses = rng.random() < 0.3
                assert rig.indexer.index_some() or rig.index.refuses
            case _:
                rig.index.refuses = False
        rig.check()
    rig.index.refuses = False
    rig.commit()
    assert rig.indexer.index_all() and rig.index.found == rig.committed
    assert rig.indexer.position == rig.log.end


def test_what_is_added_after_some_was_indexed_waits_for_itself() -> None:
    rig = Rig()
    rig.stage(hashed=2)
    rig.commit()
    assert rig.indexer.index_all() and rig.indexer.position == 2
    rig.stage(hashed=3)
    rig.commit()
    assert rig.indexer.position == 2 and rig.index.found == [0, 1]
    assert rig.indexer.index_all() and rig.index.found == [0, 1, 2, 3, 4]


def test_many_small_commits_are_indexed_in_few_calls() -> None:
    rig = Rig()
    calls: list[int] = []
    add = rig.index.add_hashed
    rig.index.add_hashed = lambda keys: (calls.append(1), add(keys))[1]  # type: ignore[method-assign]
    for _ in range(1_000):
        rig.stage(hashed=1)
        rig.commit()
    assert rig.indexer.index_all() and len(rig.index.found) == 1_000 and len(calls) == 1
