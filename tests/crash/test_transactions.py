"""Stop at the n-th write or flush of some transactions, for every n: each is decided as it was said, or still open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import pytest

from pyromq.errors import UntrustedDiskError
from pyromq.model.names import HALF_TOPIC
from pyromq.model.system_names import DISCARD_TOPIC
from pyromq.store.message_store import Placed
from pyromq.store.settings import Flush
from pyromq.testing import Crashed, CrashMode, FaultyDisk, ManualClock
from pyromq.wire.properties import decode_properties
from tests.unit.broker.builders import Wire
from tests.unit.broker.transactions.transaction_rig import COMMIT, ROLLBACK, Rig

pytestmark = pytest.mark.usefixtures("quiet")

SPAN = 8
STEPS = 10


@dataclass
class Ledger:
    """What clients were told."""

    begun: dict[str, int] = field(default_factory=dict)  # key: how its producer decides
    prepared: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)

    def decision(self, key: str) -> int:
        return self.begun.setdefault(key, COMMIT if int(key[1:]) % 3 else ROLLBACK)


async def live(rig: Rig, ledger: Ledger) -> None:
    """Transactions that end at once, late, in one commit group with others, or not at all, with checks in between."""
    producer, open_ones = rig.connect("p1"), list[tuple[str, Placed]]()
    for step in range(STEPS):
        key = f"U{step}"
        ledger.decision(key)
        sent = Wire()
        placed = rig.stage_prepared(key, wire=sent)
        ending = [] if step % 4 == 0 else [open_ones.pop() for _ in range(min(len(open_ones), step % 3))]
        wires = [(key, Wire()) for key, _ in ending]
        for (name, prepared), (_, wire) in zip(ending, wires, strict=True):
            rig.stage_end(prepared, ledger.decision(name), wire)
        await rig.settled()
        if sent.codes == [0]:
            ledger.prepared.add(key)
            open_ones.append((key, placed))
        ledger.ended |= {name for name, wire in wires if wire.codes == [0]}
        if step % 5 == 4:
            await rig.round()
            rig.progress.table.save()
    assert producer.questions or rig.disk.operations < 20


async def open_after(disk: FaultyDisk, clock: ManualClock, flush: Flush) -> Rig:
    return Rig(disk, clock, flush=flush, span_max=SPAN)


async def check(rig: Rig, ledger: Ledger) -> tuple[int, int]:
    """Nothing is missing now, and after its producers were asked everything is decided; duplicates are counted."""
    producer = rig.connect("p1")
    seen = Counter(decode_properties(each.properties)["UNIQ_KEY"] for each in rig.records("orders", 1))
    assert all(ledger.begun[key] == COMMIT for key in seen), "visible without a commit"
    for key in ledger.ended:
        assert (seen[key] > 0) == (ledger.begun[key] == COMMIT), f"{key} was ended otherwise"
    for _ in range(3):
        await rig.round()
        for header, _ in producer.questions:
            prepared = Placed(header.commit_log_offset, header.tran_state_table_offset, 0)
            key = header.msg_id or ""
            assert key not in ledger.ended, "asked about what is decided"
            assert await rig.end(prepared, ledger.begun[key], from_transaction_check=True) == 0
        producer.questions.clear()
    assert rig.log.table.waiting == 0
    stored = {decode_properties(each.properties)["UNIQ_KEY"] for each in rig.records(HALF_TOPIC)}
    assert ledger.prepared <= stored, "a prepared message is lost"
    seen = Counter(decode_properties(each.properties)["UNIQ_KEY"] for each in rig.records("orders", 1))
    assert set(seen) == {key for key in stored if ledger.begun[key] == COMMIT}
    assert rig.records(DISCARD_TOPIC) == []
    return len(stored), sum(seen.values()) - len(seen)


async def run(disk: FaultyDisk, flush: Flush) -> tuple[ManualClock, Ledger]:
    clock, ledger = ManualClock(), Ledger()
    try:
        await live(Rig(disk, clock, flush=flush, span_max=SPAN), ledger)
    except (Crashed, UntrustedDiskError):  # the latter: a flush was the last thing that happened
        pass
    return clock, ledger


@pytest.mark.parametrize("mode", CrashMode)
async def test_a_stop_at_any_operation_leaves_every_transaction_decided_or_open(
    mode: CrashMode, record_property: Callable[[str, object], None]
) -> None:
    disk = FaultyDisk()
    await run(disk, Flush.SYNC)
    operations, kept, doubled = disk.operations, 0, 0
    assert operations > 60, "the script got too short to prove anything"
    for number in range(1, operations + 1):
        disk = FaultyDisk()
        disk.crash_at(number, torn=number % 2 == 0)
        clock, ledger = await run(disk, Flush.SYNC)
        rig = await open_after(disk.after_crash(mode, Random(number)), clock, Flush.SYNC)
        found, twice = await check(rig, ledger)
        kept, doubled = kept + found, doubled + twice
        if number % 8 == 0:
            rig = await rig.reopen(span_max=SPAN)
            assert await check(rig, ledger) == (found, twice), "a second opening changes nothing"
        await rig.close()
    record_property("crash points tried", operations)
    record_property("prepared messages found again", kept)
    record_property("committed twice", doubled)
    assert kept > operations


@pytest.mark.parametrize(("mode", "seed"), [(CrashMode.KEEP, 0), (CrashMode.MIX, 1), (CrashMode.MIX, 2)])
async def test_with_async_flush_what_is_left_is_consistent(mode: CrashMode, seed: int) -> None:
    """Turns are larger here, and lost in pieces: a final message is there wherever its op record is."""
    disk = FaultyDisk()
    await run(disk, Flush.ASYNC)
    assert disk.operations > 40, "the script got too short to prove anything"
    for number in range(1, disk.operations + 1):
        disk = FaultyDisk()
        disk.crash_at(number, torn=True)
        clock, ledger = await run(disk, Flush.ASYNC)
        ledger.prepared.clear()
        ledger.ended.clear()  # what was answered may be forgotten, but not in part
        rig = await open_after(disk.after_crash(mode, Random(1_000 * seed + number)), clock, Flush.ASYNC)
        await check(rig, ledger)
        await rig.close()
