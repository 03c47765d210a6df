"""Locks and offsets for names that nobody else has: what a broker keeps of them has a bound."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pyromq.wire.codes import RequestCode
from tests.hostile.rig import Peer, beside_honest_client, count, victim

pytestmark = pytest.mark.integration

Record = Callable[[str, object], None]
LOCKS_PER_REQUEST = 500
WINDOW = 100


async def test_locks_for_random_names_have_a_bound(tmp_path: Path, record_property: Record) -> None:
    requests = count(250, 1_000)
    async with victim(tmp_path) as server:
        name = f"lock requests, {LOCKS_PER_REQUEST} queues each"
        async with beside_honest_client(server, name, requests, record_property) as attack, Peer(server.broker) as peer:
            granted = 0
            for number in range(requests):
                queues = [
                    {"topic": f"t{number}_{each}", "brokerName": "broker-a", "queueId": 0}
                    for each in range(LOCKS_PER_REQUEST)
                ]
                wanted = {"consumerGroup": f"g{number}", "clientId": "spam", "mqSet": queues}
                answer = await peer.ask(RequestCode.LOCK_BATCH_MQ, {}, json.dumps(wanted).encode())
                if answer.code == 0:
                    granted += len(json.loads(answer.body)["lockOKMQSet"])
        assert granted <= 100_000
        assert attack.after_mb - attack.before_mb < 120


async def test_offsets_for_random_names_have_a_bound(tmp_path: Path, record_property: Record) -> None:
    """Groups are created when they are first named, topics are not: offsets of made-up topics are refused."""
    commits = count(5_000, 100_000)
    async with victim(tmp_path) as server:
        async with (
            beside_honest_client(
                server, "offset commits for random groups and queues", commits, record_property
            ) as attack,
            Peer(server.broker) as peer,
        ):
            codes: dict[int, int] = {}
            for begin in range(0, commits, WINDOW):
                for number in range(begin, begin + WINDOW):
                    topic = "honest" if number % 2 else f"made-up-{number}"
                    fields = {"consumerGroup": f"g{number % 50}", "topic": topic, "commitOffset": "0"}
                    peer.send(RequestCode.UPDATE_CONSUMER_OFFSET, {**fields, "queueId": str(number % 60_000)})
                await peer.writer.drain()
                for _ in range(WINDOW):
                    code = (await peer.receive()).code
                    codes[code] = codes.get(code, 0) + 1
        assert sum(codes.values()) == commits, "every one was answered"
        assert sum(number for code, number in codes.items() if code) >= commits // 2, "no topic, no offset"
        assert attack.after_mb - attack.before_mb < 60
