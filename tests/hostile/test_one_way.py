"""A one-way request is never answered, whatever it asks and however it ends."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pyromq.wire.codes import RequestCode as Code
from tests.hostile.every_request import request_of, served_codes
from tests.hostile.rig import Peer, victim

pytestmark = pytest.mark.integration
TO_CLIENTS = {Code.NOTIFY_CONSUMER_IDS_CHANGED, Code.CHECK_TRANSACTION_STATE}  # requests of the broker itself
UNKNOWN = 4_711


async def heard(peer: Peer) -> list[tuple[int, int]]:
    """Codes and numbers of what came before the response to a request that is asked last."""
    number = peer.send(Code.GET_BROKER_RUNTIME_INFO)
    found = []
    while True:
        command = await peer.receive()
        if command.is_response and command.correlation_id == number:
            return found
        if command.is_response or command.code not in TO_CLIENTS:
            found.append((command.code, command.correlation_id))


@pytest.mark.parametrize("kind", ["served", "refused", "without fields"])
async def test_no_code_is_answered_when_it_was_sent_one_way(kind: str, tmp_path: Path) -> None:
    async with victim(tmp_path) as server, Peer(server.broker) as peer:
        for code in (Code.UPDATE_AND_CREATE_TOPIC, Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, Code.SEND_MESSAGE_V2):
            fields, body = request_of(code, "orders", "readers")
            assert (await peer.ask(code, fields, body)).code == 0
        topic, group = ("orders", "readers") if kind == "served" else ("RMQ_SYS_TRANS_HALF_TOPIC", "CID_RMQ_SYS_TRANS")
        codes = [*served_codes(), UNKNOWN]
        codes.remove(Code.DELETE_TOPIC_IN_BROKER)
        for code in [*codes, Code.DELETE_TOPIC_IN_BROKER]:  # that one last: the others need the topic
            if kind == "without fields":
                fields, body = {}, b""
            else:
                fields, body = request_of(Code(code) if code != UNKNOWN else Code.PULL_MESSAGE, topic, group)
            peer.send(code, fields, body, oneway=True)
            assert await heard(peer) == [], (code, kind)
        await asyncio.sleep(0.3)  # a tick: what waited for a flush, a name server or a client would come now
        assert await heard(peer) == []


async def test_a_one_way_pull_that_waits_is_not_answered_in_the_end_either(
    tmp_path: Path,
) -> None:
    async with victim(tmp_path) as server, Peer(server.broker) as peer:
        fields, body = request_of(Code.UPDATE_AND_CREATE_TOPIC, "orders", "readers")
        assert (await peer.ask(Code.UPDATE_AND_CREATE_TOPIC, fields, body)).code == 0
        fields, _ = request_of(Code.PULL_MESSAGE, "orders", "readers")
        wait = {"sysFlag": "6", "suspendTimeoutMillis": "300", "subscription": "*"}
        peer.send(Code.PULL_MESSAGE, fields | wait, oneway=True)
        peer.send(Code.PULL_MESSAGE, fields | wait, oneway=True)
        ended = await peer.ask(Code.PULL_MESSAGE, fields | wait)  # an ordinary one beside them: its time is over last
        assert ended.is_response and await heard(peer) == []
        peer.send(Code.PULL_MESSAGE, fields | wait | {"suspendTimeoutMillis": "20000"}, oneway=True)
        waiting = peer.send(Code.PULL_MESSAGE, fields | wait | {"suspendTimeoutMillis": "20000"})
        send, _ = request_of(Code.SEND_MESSAGE_V2, "orders", "senders")
        sent = peer.send(Code.SEND_MESSAGE_V2, send, b"order")
        numbers = {(await peer.receive()).correlation_id for _ in range(2)}
        assert numbers == {waiting, sent} and await heard(peer) == []
