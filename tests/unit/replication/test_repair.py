"""What a replica mends from its master, and what it does not wait for."""

from __future__ import annotations

import pytest

from pyromq.net.address import Address
from pyromq.replication.repair import LogRepair
from tests.unit.store.test_scrub import Bench


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
