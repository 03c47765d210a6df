"""Every lease store keeps one record, and of two who change it at once one is told that it was too late."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace

from pyromq.errors import ConfigError
from pyromq.failover.kubernetes import KubernetesLeaseStore
from pyromq.failover.opening import open_lease_store
from pyromq.failover.postgres import _CREATE
from pyromq.failover.record import LeaseConflictError, LeaseError, LeaseRecord
from pyromq.failover.store import LeaseStore
from tests.integration.lease_stores import api_server, etcd, free_port
from tests.integration.postgres import postgres
from tests.sim.lease_access import Beside, reached
from tests.sim.lease_models import EtcdModel, PostgresModel

pytestmark = pytest.mark.integration

RECORD = LeaseRecord(holder="10.0.0.1:10911", number=1, in_sync=("10.0.0.1:10911",), duration_ms=9000)


MODELS = {  # of the simulator (``tests/sim``): what is true of real servers must be true of them
    "model of etcd": (EtcdModel, "etcd:http://127.0.0.1:1"),
    "model of postgresql": (PostgresModel, "postgresql://127.0.0.1:1/x"),
}


@pytest.fixture(scope="module", params=["etcd", "postgresql", "kubernetes", *MODELS])
def served(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a store that serves all tests, or the name of a model."""
    with ExitStack() as stack:
        if request.param in MODELS:
            yield request.param
        elif request.param == "etcd":
            yield f"etcd:{stack.enter_context(etcd())}"
        elif request.param == "postgresql":
            yield f"postgresql://{stack.enter_context(postgres())}"
        else:
            yield f"kubernetes:{stack.enter_context(api_server())}"


@pytest.fixture
def address(served: str) -> Iterator[str]:
    if served not in MODELS:
        yield served
        return
    model, text = MODELS[served]
    with reached(Beside(model())):
        yield text


async def test_a_record_is_kept_and_changed_by_who_read_the_newest(address: str) -> None:
    one, other = (open_lease_store(address, "DefaultCluster", "kept") for _ in range(2))
    assert await one.read() is None
    version = await one.write(RECORD, None)
    found = await other.read()
    assert found is not None and (found.record, found.version) == (RECORD, version)
    renewed = replace(RECORD, renewals=1, confirmed=2**62, wanted="ä:1")
    second = await other.write(renewed, found.version)
    assert second != version
    with pytest.raises(LeaseConflictError):
        await one.write(replace(RECORD, holder="x"), version)
    with pytest.raises(LeaseConflictError):
        await one.write(replace(RECORD, holder="x"), None)
    found = await one.read()
    assert found is not None and (found.record, found.version) == (renewed, second)
    await one.close()
    await other.close()
    await other.close()


async def test_names_do_not_share_a_record(address: str) -> None:
    one = open_lease_store(address, "DefaultCluster", "mine")
    other = open_lease_store(address, "DefaultCluster", "yours")
    await one.write(RECORD, None)
    assert await other.read() is None
    await one.close()
    await other.close()


async def test_versions_never_come_again(address: str) -> None:
    store = open_lease_store(address, "DefaultCluster", "versions")
    versions = [await store.write(RECORD, None)]
    for number in range(5):
        versions.append(await store.write(replace(RECORD, renewals=number), versions[-1]))
    assert len(set(versions)) == len(versions)
    for old in versions[:-1]:
        with pytest.raises(LeaseConflictError):
            await store.write(RECORD, old)
    await store.close()


async def test_of_many_at_once_one_succeeds(address: str) -> None:
    stores = [open_lease_store(address, "DefaultCluster", "race") for _ in range(8)]

    async def take(store: LeaseStore, number: int, expected: str | None) -> str | None:
        try:
            return await store.write(replace(RECORD, holder=f"member-{number}"), expected)
        except LeaseConflictError:
            return None

    expected: str | None = None
    for _ in range(5):
        taken = await asyncio.gather(*(take(store, number, expected) for number, store in enumerate(stores)))
        won = [each for each in taken if each is not None]
        assert len(won) == 1
        found = await stores[0].read()
        assert found is not None and found.version == won[0] and found.record.holder == f"member-{taken.index(won[0])}"
        expected = found.version
    for store in stores:
        await store.close()


async def test_two_who_make_the_table_at_the_same_moment_both_have_it() -> None:
    psycopg = pytest.importorskip("psycopg", reason="leases were not tried on PostgreSQL: no psycopg")
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    with postgres() as server:
        address = f"postgresql://{server}"
        async with await psycopg.AsyncConnection.connect(address, autocommit=True) as looking:
            async with await psycopg.AsyncConnection.connect(address) as first:
                await first.execute(_CREATE.encode())
                store = open_lease_store(address, "DefaultCluster", "late")
                reading = asyncio.ensure_future(store.read())
                while (await (await looking.execute(waiting)).fetchone())[0] == 0:
                    assert not reading.done(), "it waits for the other, who has not committed"
                await first.commit()
            assert await reading is None
        assert await store.write(RECORD, None)
        await store.close()


@pytest.mark.parametrize(
    "kind", ["etcd:http://127.0.0.1:{}", "postgresql://shop@127.0.0.1:{}/x", "kubernetes:http://127.0.0.1:{}"]
)
async def test_a_store_that_is_away_is_a_typed_error(kind: str) -> None:
    store = open_lease_store(kind.format(free_port()), "DefaultCluster", "gone")
    with pytest.raises(LeaseError):
        await store.read()
    with pytest.raises(LeaseError):
        await store.write(RECORD, None)
    await store.close()


async def test_a_member_of_etcd_that_is_away_is_passed_over() -> None:
    with etcd() as address:
        store = open_lease_store(f"etcd:http://127.0.0.1:{free_port()},{address}", "DefaultCluster", "spread")
        version = await store.write(RECORD, None)
        found = await store.read()
        assert found is not None and found.version == version


async def test_kubernetes_wants_the_token_of_the_account(tmp_path: Path) -> None:
    with api_server(token="let-me-in") as address:
        store = KubernetesLeaseStore("pyromq-a", server=address, account=tmp_path)
        with pytest.raises(LeaseError, match="401"):
            await store.read()
        (tmp_path / "token").write_text("let-me-in\n")
        (tmp_path / "namespace").write_text("mq")
        store = KubernetesLeaseStore("pyromq-a", server=address, account=tmp_path)
        await store.write(RECORD, None)
        found = await store.read()
        assert found is not None and found.record == RECORD


@pytest.mark.parametrize("address", ["", "redis://x", "etcd", "etcd:", "etcd:localhost:2379"])
def test_what_is_no_store_is_refused(address: str) -> None:
    with pytest.raises((ConfigError, LeaseError)):
        open_lease_store(address, "DefaultCluster", "broker-a")
