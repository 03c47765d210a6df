"""What a replica mends from its master, and what it does not wait for."""

from __future__ import annotations

import pytest

from pyromq.errors import CorruptRecordError
from pyromq.net.address import Address
from pyromq.replication.repair import LogRepair
from pyromq.store.log.log_walk import DamagedRange
from tests.unit.store.test_scrub import SIZE, Bench


async def test_what_the_master_has_deleted_keeps_no_replica_from_following(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.flip(3)
    bench.pass_through()
    repair = LogRepair(bench.store, bench.scrub)
    assert repair.is_needed

    async def introduce() -> bytes:
        raise AssertionError("nobody is asked for it")

    await repair.run(Address("127.0.0.1", 1), introduce, bench.places[10].position)
    assert not repair.is_needed and not bench.store.health.damage
    assert "the master has deleted it" in caplog.text
    bench.store.close()


async def test_a_place_where_no_record_begins_keeps_no_replica_from_following(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A damaged queue entry led there; the master has no record at that place either."""
    bench = Bench()
    places = [bench.places[3].position + 7, bench.store.end_position + 1_000_000]
    bench.scrub.damaged = [DamagedRange(position, position + SIZE, "no record starts there") for position in places]
    repair = LogRepair(bench.store, bench.scrub)
    monkeypatch.setattr(repair, "_mend", refused)
    await repair.run(Address("127.0.0.1", 1), nothing, 0)
    assert not repair.is_needed and caplog.text.count("no damage there after all") == 2
    bench.store.close()


async def test_real_damage_that_the_master_cannot_mend_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.flip(3)
    bench.pass_through()
    repair = LogRepair(bench.store, bench.scrub)
    monkeypatch.setattr(repair, "_mend", refused)
    with pytest.raises(CorruptRecordError):
        await repair.run(Address("127.0.0.1", 1), nothing, 0)
    assert repair.is_needed
    bench.store.close()


async def nothing() -> bytes:
    return b""


async def refused(damaged: DamagedRange, *_: object) -> None:
    raise CorruptRecordError(position=damaged.position, reason="the copy has another record there")
