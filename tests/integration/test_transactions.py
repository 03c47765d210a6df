"""Transactions over sockets, with bare requests: prepared messages, their ends, checks, and a broker that is killed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pyromq.broker.broker import Broker
from pyromq.clock import SystemClock
from pyromq.errors import MQError
from pyromq.net import Address, Connection, open_connection
from pyromq.testing import AsyncServerProcess
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.headers.admin import ResumeCheckHalfMessageHeader
from pyromq.wire.headers.callback import CheckTransactionHeader
from pyromq.wire.headers.producer import EndTransactionHeader, SendResponseHeader
from pyromq.wire.json.heartbeat import Heartbeat, ProducerData, encode_heartbeat
from pyromq.wire.message_id import decode_offset_id
from pyromq.wire.prepared import unresolved
from pyromq.wire.properties import decode_properties
from pyromq.wire.received import Received
from pyromq.wire.record import Record, decode_record
from tests.integration.test_broker import Client, pull, pull_header, running, send, send_header
from tests.integration.waiting import PATIENCE_S, until

pytestmark = pytest.mark.integration

HALF_TOPIC, OP_TOPIC, DISCARD_TOPIC = (
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "TRANS_CHECK_MAX_TIME_TOPIC",
)
COMMIT, ROLLBACK = 8, 12
QUICK = {"transaction_timeout_ms": 0, "transaction_check_interval_ms": 50}


def half_text(key: str) -> str:
    return f"TRAN_MSG\x01true\x02PGROUP\x01payers\x02UNIQ_KEY\x01{key}\x02"


async def prepare(client: Client, key: str, more: str = "") -> SendResponseHeader:
    return await send(client, f"body of {key}".encode(), queue_id=2, sys_flag=4, properties=half_text(key) + more)


def end_header(sent: SendResponseHeader, ending: int, **changes: Any) -> EndTransactionHeader:
    fields: dict[str, Any] = {
        "producer_group": "payers",
        "tran_state_table_offset": sent.queue_offset,
        "commit_log_offset": decode_offset_id(sent.msg_id)[1],
        "commit_or_rollback": ending,
        "msg_id": sent.transaction_id,
        "transaction_id": sent.transaction_id,
    }
    return EndTransactionHeader(**fields | changes)


async def end(client: Client, sent: SendResponseHeader, ending: int, **changes: Any) -> int:
    return (await client.ask(RequestCode.END_TRANSACTION, end_header(sent, ending, **changes))).code


async def records(client: Client, topic: str, queue_id: int = 0) -> list[Record]:
    found: list[Record] = []
    while True:
        code, more, _ = await pull(client, pull_header(len(found), topic=topic, queue_id=queue_id))
        if code != ResponseCode.SUCCESS:
            return found
        found += more


async def keys(client: Client, topic: str = "orders", queue_id: int = 2) -> Counter[str]:
    return Counter([decode_properties(each.properties)["UNIQ_KEY"] for each in await records(client, topic, queue_id)])


def is_written(broker: Broker, topic: str, queue_id: int) -> bool:
    known = broker.store.reader.range_of(topic, queue_id)
    return known is not None and known.end > 0


class Producer(Client):
    """Answers every check with what ``decide`` says."""

    def __init__(self, decisions: dict[str, int]) -> None:
        super().__init__()
        self.decisions = decisions
        self.checked: list[Received[CheckTransactionHeader]] = []

    def on_requests(self, connection: Connection, requests: list[Received[Any]]) -> None:
        for request in requests:
            assert (request.code, request.is_oneway) == (RequestCode.CHECK_TRANSACTION_STATE, True)
            self.checked.append(request)
            asked: CheckTransactionHeader = request.header
            if (key := asked.msg_id or "") in self.decisions:
                header = EndTransactionHeader(
                    producer_group="payers",
                    tran_state_table_offset=asked.tran_state_table_offset,
                    commit_log_offset=asked.commit_log_offset,
                    commit_or_rollback=self.decisions[key],
                    from_transaction_check=True,
                    msg_id=key,
                )
                connection.request_oneway(RequestCode.END_TRANSACTION, header)

    async def join(self) -> None:
        beat = Heartbeat(client_id="p1", producer_data_set=(ProducerData(group_name="payers"),))
        await self.ask(RequestCode.HEART_BEAT, None, encode_heartbeat(beat))


async def test_a_message_is_seen_after_its_commit(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        await send(client, b"plain", queue_id=2)
        kept, dropped = await prepare(client, "U1"), await prepare(client, "U2")
        assert (kept.queue_id, kept.queue_offset, kept.transaction_id) == (2, 0, "U1")
        assert (dropped.queue_id, dropped.queue_offset, dropped.transaction_id) == (2, 1, "U2")
        assert [each.body for each in await records(client, "orders", 2)] == [b"plain"]
        waiting = asyncio.create_task(pull(client, pull_header(1, queue_id=2, wait_ms=15_000)))
        assert await end(client, dropped, ROLLBACK) == ResponseCode.SUCCESS
        assert not waiting.done()
        assert await end(client, kept, COMMIT) == ResponseCode.SUCCESS
        _, (final,), _ = await asyncio.wait_for(waiting, PATIENCE_S)
        properties = decode_properties(final.properties)
        assert (final.body, properties["UNIQ_KEY"], properties["CLUSTER"]) == (b"body of U1", "U1", "DefaultCluster")
        assert final.prepared_position == decode_offset_id(kept.msg_id)[1]
        assert await end(client, kept, COMMIT, producer_group="others") == ResponseCode.SYSTEM_ERROR


async def test_a_one_way_commit_works_as_java_clients_do_it(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        sent = await prepare(client, "U1")
        client.connection.request_oneway(RequestCode.END_TRANSACTION, end_header(sent, COMMIT))
        client.connection.request_oneway(RequestCode.END_TRANSACTION, end_header(sent, COMMIT))
        _, (final,), _ = await pull(client, pull_header(queue_id=2, wait_ms=10_000))
        assert final.body == b"body of U1"
        assert len(await records(client, OP_TOPIC)) == 1


async def test_producers_are_asked_and_their_answers_count(tmp_path: Path) -> None:
    async with running(tmp_path, **QUICK) as (broker, client):
        for key in ("U1", "U2", "U3"):
            await prepare(client, key)
        producer = Producer({"U1": COMMIT, "U2": ROLLBACK})
        await producer.connect(broker)
        await producer.join()
        await until(
            lambda: Counter(each.header.msg_id for each in producer.checked)["U3"] >= 3, "asked again and again"
        )
        message = decode_record(producer.checked[0].body)
        assert (message.topic, message.queue_id, message.body) == (b"orders", 2, b"body of U1")
        assert await keys(client) == {"U1": 1}
        assert {each.header.msg_id for each in producer.checked[3:]} == {"U3"}
        producer.connection.close()


async def test_what_nobody_decides_is_put_away_and_can_be_resumed(tmp_path: Path) -> None:
    async with running(tmp_path, transaction_checks_max=2, **QUICK) as (broker, client):
        sent, producer = await prepare(client, "U1"), Producer({})
        await producer.connect(broker)
        await producer.join()
        await until(lambda: is_written(broker, DISCARD_TOPIC, 0), "put away")
        assert len(producer.checked) == 2
        broker.settings.transaction_checks_max = 1_000
        (away,) = await records(client, DISCARD_TOPIC)
        host, _ = decode_offset_id(sent.msg_id)
        header = ResumeCheckHalfMessageHeader(topic=DISCARD_TOPIC, msg_id=f"{host.encode().hex()}{away.position:016x}")
        assert (await client.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, header)).code == ResponseCode.SUCCESS
        producer.decisions["U1"] = COMMIT
        await until(lambda: is_written(broker, "orders", 2), "committed after all")
        producer.connection.close()


async def test_operators_see_what_waits_by_pulling_the_system_topics(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        sent = [await prepare(client, f"U{number}") for number in range(40)]
        for each in sent[::2]:
            assert await end(client, each, COMMIT) == ResponseCode.SUCCESS
        found = unresolved(await records(client, HALF_TOPIC), await records(client, OP_TOPIC))
        assert [each.unique_key for each in found] == [f"U{number}" for number in range(1, 40, 2)]
        assert {(each.topic, each.queue_id, each.group) for each in found} == {("orders", 2, "payers")}


async def test_transactions_may_be_refused_while_the_broker_runs(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        sent = await prepare(client, "U1")
        changed = await client.ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"rejectTransactionMessage=true\n")
        assert changed.code == ResponseCode.SUCCESS, changed.remark
        header = send_header(properties=half_text("U2"), sys_flag=4)
        answer = await client.ask(RequestCode.SEND_MESSAGE_V2, header, b"x")
        assert answer.code == ResponseCode.NO_PERMISSION
        assert await end(client, sent, COMMIT) == ResponseCode.SUCCESS, "what has begun may end"


async def test_a_restart_knows_what_waits(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        first, second = await prepare(client, "U1"), await prepare(client, "U2")
        assert await end(client, first, COMMIT) == ResponseCode.SUCCESS
    async with running(tmp_path, **QUICK) as (broker, client):
        producer = Producer({"U2": COMMIT})
        await producer.connect(broker)
        await producer.join()
        await until(lambda: producer.checked, "asked")
        assert {each.header.msg_id for each in producer.checked} == {"U2"}
        assert await end(client, second, COMMIT) == ResponseCode.SUCCESS
        assert await keys(client) == {"U1": 1, "U2": 1}
        producer.connection.close()


# --- killed ---


@asynccontextmanager
async def connected(server: AsyncServerProcess, client: Client) -> AsyncIterator[Client]:
    address = Address.parse(server.nameserver)
    address = Address.parse(server.broker)
    client.connection = await open_connection(address, clock=SystemClock(), handler=client)
    yield client
    client.connection.close()


class Load:
    """Transactions, some of them never ended, and what was answered."""

    def __init__(self) -> None:
        self.decisions: dict[str, int] = {}
        self.prepared: set[str] = set()
        self.ended: set[str] = set()

    async def run(self, client: Client, lane: str) -> None:
        rng = Random(lane)
        for number in range(100_000):
            key = f"{lane}x{number}"
            self.decisions[key] = rng.choice((COMMIT, COMMIT, ROLLBACK))
            sent = await prepare(client, key)
            self.prepared.add(key)
            if rng.random() < 0.7:
                assert await end(client, sent, self.decisions[key]) == ResponseCode.SUCCESS
                self.ended.add(key)


async def test_a_killed_broker_keeps_every_transaction_as_it_was_decided(tmp_path: Path) -> None:
    load, rng = Load(), Random(7)
    async with AsyncServerProcess("up", data=tmp_path / "data") as server:
        for life in range(2):
            client = Client()
            async with connected(server, client):
                lanes = [asyncio.create_task(load.run(client, f"L{life}n{lane}")) for lane in range(8)]
                wanted = len(load.ended) + rng.randrange(20, 120)
                await until(lambda wanted=wanted: len(load.ended) >= wanted, "transactions")  # type: ignore[misc]
                await server.kill()
                for result in await asyncio.gather(*lanes, return_exceptions=True):
                    assert isinstance(result, MQError), result
            await server.start()
        producer = Producer(load.decisions)
        async with connected(server, producer):
            quick = b"transactionTimeOut=0\ntransactionCheckInterval=100\n"
            answer = await producer.ask(RequestCode.UPDATE_BROKER_CONFIG, None, quick)
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            seen = await keys(producer)
            for key in load.ended:
                assert (seen[key] == 1) == (load.decisions[key] == COMMIT), f"{key} was ended otherwise"
            await producer.join()
            left: list[Any] = [None]
            while left:
                left = unresolved(await records(producer, HALF_TOPIC), await records(producer, OP_TOPIC))
                await asyncio.sleep(0.05)
            assert not load.ended & {each.header.msg_id for each in producer.checked}, "asked about what was decided"
            prepared, seen = await keys(producer, HALF_TOPIC, 0), await keys(producer)
            assert load.prepared <= set(prepared)
            assert set(seen) == {key for key in prepared if load.decisions[key] == COMMIT}
            assert max(seen.values()) == 1
            assert len(load.prepared) > len(load.ended) > 50
