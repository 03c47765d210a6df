"""A replica's store that stops at every operation, opens again and goes on: always a prefix of the original."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from pyromq.store.message_store import MessageStore
from pyromq.testing import FaultyDisk, ManualClock
from pyromq.testing.faulty_disk import Crashed, CrashMode
from tests.crash.script import SMALL, draft
from tests.unit.store.test_copied_log import bytes_of, original, same

COPY = Path("/copy")
PIECE = 1_700
EVERY = 1 if "PYROMQ_CRASH_ROUNDS" in os.environ else 7  # n-th operation; the six runs of ``make test`` begin elsewhere


def replicate(disk: FaultyDisk, data: bytes, confirmed: list[int]) -> MessageStore:
    """A replica's life: what is appended is flushed, then reported; now and then the store is sealed."""
    store = MessageStore.open(COPY, SMALL, disk=disk, clock=ManualClock())
    turn = 0
    while store.end_position < len(data):
        start = store.end_position
        end = start + PIECE
        while store.end_position == start:  # a blank mark may be longer than a piece
            store.copies.take(data[start:end])
            end += PIECE
        store.flush()
        confirmed.append(store.flushed_position)
        turn += 1
        if turn % 3 == 0:
            store.seal()
    return store


@pytest.mark.parametrize("mode", list(CrashMode))
@pytest.mark.parametrize("torn", [False, True])
def test_a_crash_at_any_operation_takes_nothing_back_that_was_reported(mode: CrashMode, torn: bool) -> None:
    source = FaultyDisk()
    first = 1 + list(CrashMode).index(mode) * 2 + torn
    with original(source, groups=7) as store:
        store.delete_topic("%RETRY%billing")  # offsets of a topic that is made again go back
        store.append([draft(number) for number in range(200, 220)])
        store.flush()
        data = bytes_of(store)
        whole = FaultyDisk()
        replicate(whole, data, []).close()
        for operation in range(first, whole.operations + 1, EVERY):
            disk, confirmed = FaultyDisk(), [0]
            disk.crash_at(operation, torn=torn)
            try:
                replicate(disk, data, confirmed).close()
            except Crashed:
                pass
            disk = disk.after_crash(mode, Random(operation))
            with MessageStore.open(COPY, SMALL, disk=disk, clock=ManualClock()) as copy:
                assert copy.end_position >= confirmed[-1], f"operation {operation}"
                assert bytes_of(copy) == data[: copy.end_position]
            with replicate(disk, data, confirmed) as copy:
                same(store, copy)
