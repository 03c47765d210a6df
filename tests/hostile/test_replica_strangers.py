"""Strangers at the port for replicas: they get nothing, count for nothing, and take no place of a replica."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pyromq import Message
from pyromq.aio import Producer
from pyromq.results import SendStatus
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.transfer import encode_name, encode_proof, encode_report
from tests.integration.guarded import CANARY, ROOT, Client, ask_as, guarded_access
from tests.integration.replication_pair import Pair, a_pair
from tests.integration.waiting import until

pytestmark = pytest.mark.integration

PROVEN_BY_NOTHING = (
    b"",
    encode_name(1),
    encode_name(1, silent=True),
    encode_proof(bytes(32)) + encode_name(1),
    encode_proof(b"x" * 32),
)


def guarded_producer(pair: Pair) -> Producer:
    return Producer(pair.nameserver, group="senders", credentials=ROOT, timeout_ms=60_000)


@asynccontextmanager
async def crowd(pair: Pair, count: int, said: bytes = b"") -> AsyncIterator[None]:
    """So many connections, which say that and nothing more."""
    writers = []
    try:
        for _ in range(count):
            _, writer = await asyncio.open_connection(*pair.leader.address)
            writers.append(writer)
            writer.write(said)
        yield
    finally:
        for writer in writers:
            writer.close()


async def test_with_access_control_who_proves_nothing_gets_nothing_and_counts_for_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_pair(tmp_path) as pair:
        await pair.start_master(access=guarded_access())
        async with guarded_producer(pair) as producer:
            await producer.send(Message("orders", b"1"))
            for said in PROVEN_BY_NOTHING:
                reader, writer = await asyncio.open_connection(*pair.leader.address)
                writer.write(said + encode_report(1) + encode_report(pair.leader.end))
                with pytest.raises(ConnectionResetError):
                    assert not await reader.read(), "a stranger got something"
                    raise ConnectionResetError
                writer.close()
                assert len(pair.leader.replicas) == 0
                assert (await producer.send(Message("orders", b"2"))).status is SendStatus.SLAVE_NOT_AVAILABLE
            await pair.start_replica(access=guarded_access())
            await until(lambda: pair.leader.replicas.in_sync(pair.leader.end), "a replica with the secret")
            assert (await producer.send(Message("orders", b"3"))).status is SendStatus.SEND_OK
    assert caplog.text.count("has not proved") == 1 and CANARY not in caplog.text


async def test_a_proof_is_taken_once_and_challenges_are_for_those_who_may_read_everything(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        master = await pair.start_master(access=guarded_access())
        async with Client(str(master.address)) as peer:
            refused = await peer.ask(int(RequestCode.GET_REPLICA_CHALLENGE), {})
            assert refused.code == ResponseCode.NO_PERMISSION and not refused.body
            given = await ask_as(peer, "inner-broker", RequestCode.GET_REPLICA_CHALLENGE, {})
            assert given.code == ResponseCode.SUCCESS and len(given.body) == 16
        reader, writer = await asyncio.open_connection(*pair.leader.address)
        writer.write(encode_proof(given.body * 2) + encode_name(1) + encode_report(0))
        with pytest.raises(ConnectionResetError):
            assert not await reader.read(), "the challenge is not its answer"
            raise ConnectionResetError
        writer.close()


async def test_addresses_that_the_settings_name_need_no_proof(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        await pair.start_master(access=guarded_access(), unproven_addresses=("127.0.0.1",))
        async with guarded_producer(pair) as producer:
            await producer.send(Message("orders", b"1"))
        reader, writer = await asyncio.open_connection(*pair.leader.address)
        writer.write(encode_report(1))
        assert len(await reader.readexactly(12)) == 12, "as a replica of Apache's"
        writer.close()


@pytest.mark.parametrize("is_guarded", [False, True])
@pytest.mark.parametrize("said", [b"", b"\0" * 7, encode_name(1)])
async def test_those_who_never_say_what_they_want_take_no_place_of_a_replica(
    tmp_path: Path, is_guarded: bool, said: bytes
) -> None:
    access = guarded_access() if is_guarded else None
    async with a_pair(tmp_path) as pair:
        await pair.start_master(access=access)
        async with crowd(pair, 3 * pair.leader.settings.connections_max, said):
            await pair.start_replica(access=access)
            await until(lambda: pair.leader.replicas.in_sync(pair.leader.end), "the replica is in sync")
            assert len(pair.leader.replicas) == 1
