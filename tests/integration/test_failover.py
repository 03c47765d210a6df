"""Failover with real processes: whoever dies or is stopped, one broker is master, and nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pyromq import Message, ReceivedMessage
from pyromq.aio import Producer, PushConsumer
from pyromq.clock import SystemClock
from pyromq.errors import MQError
from pyromq.failover.record import MemberRole
from pyromq.net import Address, open_connection
from pyromq.settings import PushConsumerSettings
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.headers.producer import SendHeader
from tests.integration.failover_rig import FailoverRig, Member, failover_rig
from tests.integration.lease_stores import etcd
from tests.integration.postgres import postgres
from tests.integration.replication_pair import CuttingProxy
from tests.integration.waiting import PATIENCE_S, until

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def etcd_address() -> Iterator[str]:
    with etcd() as address:
        yield address


@pytest.fixture
def store(etcd_address: str) -> str:
    return f"etcd:{etcd_address}"


async def send_some(rig: FailoverRig, count: int, prefix: str) -> list[str]:
    """Bodies whose senders were told that they are stored; each is sent until one is."""
    stored = []
    async with Producer(rig.nameserver, group="senders") as producer:
        for number in range(count):
            body = f"{prefix}-{number}"
            for _ in range(600):
                try:
                    await producer.send(Message("orders", body.encode()))
                except MQError:
                    await asyncio.sleep(0.1)
                    continue
                stored.append(body)
                break
    return stored


async def settled(rig: FailoverRig) -> tuple[Member, Member]:
    """The master and the replica of two, when either could be it."""
    first = await rig.master(in_sync=2)
    other = next(each for each in rig.members if each is not first)
    await rig.follows(other)
    return first, other


@pytest.mark.parametrize("kind", ["etcd", "postgresql"])
async def test_a_replica_takes_over_from_a_killed_master_which_comes_back_as_replica(
    tmp_path: Path, kind: str, etcd_address: str
) -> None:
    with ExitStack() as stack:
        is_etcd = kind == "etcd"
        store = f"etcd:{etcd_address}" if is_etcd else f"postgresql://{stack.enter_context(postgres())}"
        async with failover_rig(tmp_path, store) as rig:
            first, other = await settled(rig)
            stored = await send_some(rig, 20, "before")
            await first.kill()
            assert await rig.master(but_not=first) is other
            stored += await send_some(rig, 20, "after")
            assert await rig.bodies("orders") >= set(stored)
            await first.start()
            back = await rig.follows(first)
            assert back.number == 2 and back.master == other.address
            assert await rig.master(in_sync=2) is other
            assert await rig.addresses() == {0: other.address, 10: first.address}


@pytest.mark.parametrize("role", ["sync-master", "async-master"])
async def test_a_master_that_was_stopped_for_longer_than_its_lease_acknowledges_nothing(
    tmp_path: Path, store: str, role: str
) -> None:
    async with failover_rig(tmp_path, store, role=role) as rig:
        first, other = await settled(rig)
        await send_some(rig, 30, "before")  # every queue is known, also to the send lane
        await settled(rig)
        connection = await open_connection(Address.parse(first.address), clock=SystemClock())
        first.pause()
        header = SendHeader(
            producer_group="senders",
            topic="orders",
            default_topic="TBW102",
            default_topic_queue_nums=8,
            queue_id=0,
            sys_flag=0,
            born_timestamp=0,
            flag=0,
        )
        sent = [
            asyncio.ensure_future(connection.request(RequestCode.SEND_MESSAGE_V2, header, b"late", timeout_ms=120_000))
            for _ in range(20)
        ]
        assert await rig.master(but_not=first) is other
        first.resume()
        ended = await asyncio.gather(*sent, return_exceptions=True)
        codes = Counter(each.code if not isinstance(each, BaseException) else type(each).__name__ for each in ended)
        assert ResponseCode.SUCCESS not in codes and ResponseCode.FLUSH_SLAVE_TIMEOUT not in codes, codes
        assert ResponseCode.SLAVE_NOT_AVAILABLE not in codes, codes
        assert (await rig.follows(first)).master == other.address
        assert "late" not in await rig.bodies("orders")
        assert (await rig.addresses())[0] == other.address
        connection.close()
        await connection.wait_closed()


async def test_without_its_lease_store_a_master_stops_acknowledging_and_goes_on_when_it_is_back(
    tmp_path: Path, etcd_address: str
) -> None:
    async with CuttingProxy(Address.parse(etcd_address.removeprefix("http://"))) as proxy:
        async with failover_rig(tmp_path, f"etcd:http://{proxy.address}") as rig:
            first, _ = await settled(rig)
            await send_some(rig, 3, "before")
            proxy.accepts = False
            proxy.cut()

            async def granted_s() -> float:
                status = await rig.status(first)
                return status.granted_s if status is not None else 1.0

            for _ in range(round(PATIENCE_S / 0.05)):
                if not await granted_s():
                    break
                await asyncio.sleep(0.05)
            async with Producer(rig.nameserver, group="senders") as producer:
                with pytest.raises(MQError):
                    await producer.send(Message("orders", b"refused"))
            assert (status := await rig.status(first)) is not None and status.role is MemberRole.MASTER
            proxy.accepts = True
            await rig.master()
            stored = await send_some(rig, 3, "after")
            found = await rig.bodies("orders")
            assert found >= set(stored)


async def test_both_restarted_at_once_go_on(tmp_path: Path, store: str) -> None:
    async with failover_rig(tmp_path, store) as rig:
        await settled(rig)
        stored = await send_some(rig, 20, "before")
        await asyncio.gather(*(member.kill() for member in rig.members))
        await asyncio.gather(*(member.start() for member in rig.members))
        await settled(rig)
        stored += await send_some(rig, 20, "after")
        assert await rig.bodies("orders") >= set(stored)


async def test_a_broker_whose_agent_is_killed_is_replaced(tmp_path: Path, store: str) -> None:
    async with failover_rig(tmp_path, store) as rig:
        first, other = await settled(rig)
        stored = await send_some(rig, 10, "before")
        await first.agent.kill()
        assert await rig.master(but_not=first) is other
        stored += await send_some(rig, 10, "after")
        await first.agent.start()
        await rig.follows(first)
        assert await rig.bodies("orders") >= set(stored)


async def test_an_agent_that_is_stopped_hands_over_first(tmp_path: Path, store: str) -> None:
    async with failover_rig(tmp_path, store) as rig:
        first, other = await settled(rig)
        stored = await send_some(rig, 10, "before")
        await first.agent.stop()
        assert "handed over" in first.agent.log
        assert await rig.master(but_not=first) is other
        await rig.follows(first)
        stored += await send_some(rig, 10, "after")
        assert await rig.bodies("orders") >= set(stored)


async def test_a_planned_change_under_load_loses_and_refuses_nothing(tmp_path: Path, store: str) -> None:
    got: Counter[str] = Counter()

    async def listen(message: ReceivedMessage) -> None:
        got[message.body.decode()] += 1

    async with failover_rig(tmp_path, store) as rig:
        first, other = await settled(rig)
        await send_some(rig, 3, "warm")
        quick = PushConsumerSettings(persist_ms=500, rebalance_ms=1_000)
        async with (
            Producer(rig.nameserver, group="senders") as producer,
            PushConsumer(rig.nameserver, group="readers", listener=listen, topics="orders", settings=quick),
        ):
            stored: list[str] = []
            is_over = asyncio.Event()

            async def produce(number: int) -> None:
                count = 0
                while not is_over.is_set():
                    body = f"{number}-{count}"
                    await producer.send(Message("orders", body.encode()))  # a refusal would end the test
                    stored.append(body)
                    count += 1

            senders = [asyncio.create_task(produce(number)) for number in range(4)]
            await until(lambda: len(stored) > 200, "sends go on")
            done = await switch(rig)
            assert (done["was"], done["master"], done["lease"]) == (first.address, other.address, 2)
            at = len(stored)
            await until(lambda: len(stored) > at + 200 or any(each.done() for each in senders), "sends go on after")
            done = await switch(rig, "--to", first.address)
            assert done["master"] == first.address
            at = len(stored)
            await until(lambda: len(stored) > at + 200 or any(each.done() for each in senders), "sends go on again")
            is_over.set()
            await asyncio.gather(*senders)
            await until(lambda: set(stored) <= set(got), "all are consumed")
        assert await rig.bodies("orders") >= set(stored)


async def switch(rig: FailoverRig, *more: str) -> dict[str, object]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pyromq", "cluster", "switch", rig.name, "--store", rig.store),
        *("--nameserver", rig.nameserver, "--output", "json", *more),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, progress = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode == 0, progress.decode()
    (row,) = json.loads(said)
    assert "is master" in progress.decode()
    print(progress.decode())
    return dict(row)


async def test_of_three_members_two_count_at_once_after_a_failover_and_the_third_is_missing(
    tmp_path: Path, store: str
) -> None:
    async with failover_rig(tmp_path, store, count=3) as rig:
        first = await rig.master(in_sync=3)
        await send_some(rig, 3, "before")
        await first.kill()
        other = await rig.master(but_not=first)
        record = await rig.record()
        assert record is not None and len(record.in_sync) == 2, "it stayed in sync from the first moment"
        assert first.address in record.away
        statuses = Counter[str]()
        async with Producer(rig.nameserver, group="senders") as producer:
            for number in range(20):
                receipt = await producer.send(Message("orders", f"after-{number}".encode()))
                statuses[receipt.status.name] += 1
        assert set(statuses) == {"SEND_OK"}, statuses
        words = ("cluster", "replication", "--nameserver", rig.nameserver, "-o", "json")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pyromq", *words), stdout=asyncio.subprocess.PIPE
        )
        out, _ = await process.communicate()
        assert process.returncode == 5 and f"{first.address} is missing since" in out.decode()
        assert await rig.master(but_not=first) is other


async def test_an_async_set_stays_one_after_a_failover(tmp_path: Path, store: str) -> None:
    async with failover_rig(tmp_path, store, role="async-master") as rig:
        first, other = await settled(rig)
        await first.kill()
        assert await rig.master(but_not=first) is other
        status = await rig.status(other)
        assert status is not None and not status.waits
        await other.kill()
        await other.start()
        await first.start()
        await rig.master(in_sync=2)
        back = await rig.status(other)
        assert back is not None and (back.role is MemberRole.REPLICA or not back.waits)
