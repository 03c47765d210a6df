"""A real broker process on a mount that forgets: with sync flush nothing acknowledged is lost, without it is seen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pyromq.aio import Admin, Message, Producer
from pyromq.replication.settings import Role
from pyromq.results import SendStatus
from pyromq.store.settings import Flush
from tests.faults.cluster import STORE, Member, running_cluster
from tests.faults.forgetful.mount import ForgetfulMount, why_not
from tests.faults.forgetful.volume import PowerLoss
from tests.faults.pop_rounds import AloneCluster

pytestmark = [
    pytest.mark.integration,
    pytest.mark.usefixtures("quiet"),
    pytest.mark.skipif(bool(why_not()), reason=f"no forgetful mount here, power loss was not tried: {why_not()}"),
]
TOPIC = "orders"
MESSAGES = 60


async def lost_by_power(folder: Path, flush: Flush, mode: PowerLoss, losses: int) -> tuple[int, int]:
    """How many messages were acknowledged, and how many of these are gone, after so many power losses."""
    acknowledged: set[bytes] = set()
    with ForgetfulMount(folder / "disk") as mount:
        member = Member(folder, "only", replace(STORE, flush=flush))
        member.folder = mount.folder / "store"
        async with running_cluster(AloneCluster([member], Role.ALONE)) as cluster:
            async with Admin(cluster.nameserver) as admin:
                await admin.topics.create(TOPIC, queues=2)
            for life in range(losses):
                async with Producer(cluster.nameserver, group="shop") as producer:
                    for number in range(MESSAGES):
                        body = b"%d %d" % (life, number)
                        if (await producer.send(Message(TOPIC, body))).status is SendStatus.SEND_OK:
                            acknowledged.add(body)
                await member.kill()
                mount.lose_power(mode, life)
                await member.start(Role.ALONE, 0)
            return len(acknowledged), len(acknowledged - await _bodies(cluster.nameserver))


async def _bodies(nameserver: str) -> set[bytes]:
    found = set()
    async with Admin(nameserver) as admin:
        for queue, place in (await admin.topics.stats(TOPIC)).items():
            async for message in admin.messages.walk(queue, place.min_offset, place.max_offset):
                found.add(message.body)
    return found


@pytest.mark.parametrize("mode", PowerLoss)
async def test_with_sync_flush_nothing_acknowledged_is_lost(tmp_path: Path, mode: PowerLoss) -> None:
    assert await lost_by_power(tmp_path, Flush.SYNC, mode, 2) == (2 * MESSAGES, 0)


async def test_with_async_flush_the_mount_shows_what_power_takes(tmp_path: Path) -> None:
    acknowledged, lost = await lost_by_power(tmp_path, Flush.ASYNC, PowerLoss.FORGET, 1)
    assert acknowledged == MESSAGES and lost > 0, "a mount that forgets nothing would prove nothing"
