"""Random lives of a store: everything an owner does, in any order, with failing and crashing disks in between.

A ledger remembers every message that was acknowledged; after each opening all of them must be where they were.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from random import Random

import pytest

from pyromq.errors import StoreError
from pyromq.store.sealing.seal_job import SealJob
from pyromq.testing import Crashed, CrashMode, FaultyDisk, ManualClock
from pyromq.wire.record import split_records
from tests.crash.script import ROOT, SMALL, draft, open_store
from tests.derived_again import assert_derived_again
from tests.running.seeds import seeds

pytestmark = [pytest.mark.seeded, pytest.mark.usefixtures("quiet")]

LIVES = int(os.environ.get("PYROMQ_LIVES", "400"))
LANES = 2
STEPS = 60
TOPICS = ("orders", "payments", "%RETRY%billing")
Address = tuple[str, int, int]  # topic, queue, offset


class Life:
    """One store from its first opening on, and what its clients were told."""

    def __init__(self, seed: int) -> None:
        self.rng, self.disk, self.clock = Random(seed), FaultyDisk(), ManualClock()
        self.store = open_store(self.disk, self.clock)
        self.acknowledged: dict[Address, tuple[bytes, int]] = {}  # body and position
        self.unflushed: dict[Address, tuple[bytes, int]] = {}
        self.number = 0
        self.steps: list[str] = []
        self.sealing: SealJob | None = None

    def live(self) -> None:
        deeds = [self.append] * 6 + [self.flush] * 4 + [self.crash] * 2
        deeds += [self.seal, self.note, self.delete_topic, self.retain, self.close, self.find, self.break_disk]
        deeds += [self.write_some, self.seal_some, self.seal_some, self.remove, self.trim_some]
        for _ in range(STEPS):
            deed = self.rng.choice(deeds)
            self.steps.append(deed.__name__)
            try:
                deed()
                self.heal()
            except Crashed:
                self.steps.append("crashed")
                self.come_back(self.rng.choice(list(CrashMode)))
            except StoreError:
                self.steps.append("refused")
                try:
                    self.heal()
                except Crashed:
                    self.come_back(self.rng.choice(list(CrashMode)))
        self.crash()
        if not self.was_interrupted("delete_topic"):  # else the log does not tell which life of a topic a record is of
            disk = self.disk.after_crash(CrashMode.KEEP)  # one that does not fail any more
            open_store(disk, self.clock).close()
            assert_derived_again(ROOT, SMALL, disk, had_faults=True)

    def was_interrupted(self, deed: str) -> bool:
        """Whether a deed of that name ever ended with a crash or a refusal."""
        return any(first == deed and then in ("crashed", "refused") for first, then in pairwise(self.steps))

    # --- what owners do ---

    def append(self) -> None:
        drafts = [draft(self.number + n, topic=self.rng.choice(TOPICS)) for n in range(self.rng.randint(1, 5))]
        self.number += len(drafts)
        for each, placed in zip(drafts, self.store.append(drafts), strict=True):
            self.unflushed[each.topic, each.queue_id, placed.offset] = (each.body, placed.position)
        self.clock.advance_ms(self.rng.choice((0, 10, 1000)))

    def flush(self) -> None:
        self.store.flush()
        self.acknowledge()

    def seal(self) -> None:
        if self.store.seal():
            self.acknowledge()

    def note(self) -> None:
        self.store.note_flushed()

    def write_some(self) -> None:
        self.store.write_entries(self.rng.randint(1, 2))

    def seal_some(self) -> None:
        """A step of a seal that goes on while other things happen."""
        job = self.sealing = self.sealing or self.store.seals.begin()
        if job is None:
            return
        try:
            if job.seal is None:
                self.store.seals.gather(job, self.rng.randint(1, 2))
            elif not job.is_synced:
                job.sync()
            elif self.store.flushed_position >= job.seal.durable_end:
                self.sealing = None
                if job.save():
                    self.store.seals.finish(job, None)
        except OSError as error:
            self.sealing = None
            self.store.seals.finish(job, error)
        except StoreError:
            self.sealing = None
            raise

    def find(self) -> None:
        self.store.find("orders", "order-1")

    def delete_topic(self) -> None:
        topic = self.rng.choice(TOPICS)
        for ledger in (self.acknowledged, self.unflushed):
            for address in [address for address in ledger if address[0] == topic]:
                del ledger[address]  # whether or not it succeeds, they are no longer promised
        self.store.delete_topic(topic)

    def retain(self) -> None:
        self.store.delete_oldest(self.rng.randint(1, 2))

    def remove(self) -> None:
        with suppress(OSError):
            self.store.removal.run()

    def trim_some(self) -> None:
        self.store.removal.trim_queues(self.rng.randint(1, 2))

    def close(self) -> None:
        self.store.close()
        self.come_back(CrashMode.KEEP)

    def crash(self) -> None:
        self.come_back(self.rng.choice(list(CrashMode)))

    def break_disk(self) -> None:
        self.disk.fail_at(self.disk.operations + self.rng.randint(1, 12), self.rng.choice((errno.EIO, errno.ENOSPC)))
        if self.rng.random() < 0.5:
            self.disk.crash_at(self.disk.operations + self.rng.randint(1, 20), torn=self.rng.random() < 0.5)

    def heal(self) -> None:
        """What maintenance and operators do about a store that takes nothing."""
        if self.store.health.writable:
            return
        if not self.store.health.trusted:
            self.crash()
        elif self.store.write_entries():
            self.store.health.space_returned()

    # --- what must hold ---

    def acknowledge(self) -> None:
        for address, told in self.unflushed.items():
            known = self.acknowledged.get(address)
            assert known is None or known == told, f"offset given twice: {address} after {self.steps}"
            self.acknowledged[address] = told
        self.unflushed.clear()

    def come_back(self, mode: CrashMode) -> None:
        """Power returns, perhaps to fail once more while the store is recovering."""
        self.unflushed.clear()
        self.sealing = None
        self.disk = self.disk.after_crash(mode, self.rng)
        if self.rng.random() < 0.3:
            self.disk.crash_at(self.rng.randint(1, 30), torn=True)
        try:
            self.store = open_store(self.disk, self.clock)
        except Crashed:
            self.disk = self.disk.after_crash(self.rng.choice(list(CrashMode)), self.rng)
            self.store = open_store(self.disk, self.clock)
        self.check()

    def check(self) -> None:
        for (topic, queue_id, offset), (body, position) in self.acknowledged.items():
            if position >= self.store.first_position:
                result = self.store.reader.read(topic, queue_id, offset, count_max=1)
                bodies = [record.body for record in split_records(result.to_bytes())]
                assert bodies == [body], f"{topic}/{queue_id}@{offset}: {result.status} after {self.steps}"


@pytest.mark.parametrize("lane", range(LANES))
def test_whatever_happens_to_a_store_its_acknowledged_messages_stay(
    lane: int, record_property: Callable[[str, object], None]
) -> None:
    checked = 0
    for seed in seeds(LIVES)[lane::LANES]:
        life = Life(seed)
        try:
            life.live()
        except BaseException:
            print(f"seed {seed}: {life.steps}")
            record_property("random lives that broke a promise", 1)
            raise
        checked += len(life.acknowledged)
    record_property("acknowledged records checked", checked)
    record_property("random lives that broke a promise", 0)
