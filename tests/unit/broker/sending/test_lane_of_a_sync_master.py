"""Sends of a sync master, by the lane and by Python: both say the same, and nothing before replicas have it.

A scripted replica confirms in steps that end anywhere, is late, goes and comes back; no sockets, no real time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from pyromq.broker.base.authority import Unmanaged
from pyromq.broker.base.request_times import RequestTimes
from pyromq.broker.commit.acknowledger import Acknowledger
from pyromq.broker.commit.replica_stage import Copies, ReplicaStage
from pyromq.compiled_core import DESCRIPTION, core
from pyromq.replication.leader import Leader
from pyromq.replication.replicas import ReplicaConnection, Replicas
from pyromq.replication.settings import ReplicationSettings, Role
from pyromq.store.settings import Flush
from pyromq.wire.batch import BatchItem, encode_batch
from pyromq.wire.codes import ResponseCode
from pyromq.wire.command import Command, decode_command
from pyromq.wire.frame import FrameDecoder
from tests.unit.broker.sending.lane_rig import LaneRig, send_frame
from tests.unit.net.fakes import turn

needs_core = pytest.mark.skipif(core is None, reason=f"there is no lane: {DESCRIPTION}")
TIMEOUT_MS = 5_000
PATIENT = ReplicationSettings(role=Role.SYNC_MASTER, stall_ms_max=TIMEOUT_MS + 1)  # so that some sends are late first
STEPS = 80
KEY = "UNIQ_KEY\x017F0000010000000000000000\x02"
NO_WAIT = "WAIT\x01false\x02"
TWICE_STORED = ResponseCode.SUCCESS


class SyncMaster:
    """A broker that waits for a replica of the test's making."""

    def __init__(self, rig: LaneRig) -> None:
        self.rig = rig
        path = self.path = rig.broker.parts.write_path
        replicas, authority = Replicas(PATIENT), Unmanaged()
        acknowledger = Acknowledger(authority, RequestTimes(), rig.clock)
        self.stage = ReplicaStage(
            path.store,
            Copies(replicas=replicas),
            authority,
            acknowledger,
            path.readers,
            path.pressure,
            rig.clock,
            timeout_ms=TIMEOUT_MS,
        )
        self.leader = Leader(path.store, PATIENT, rig.clock, replicas=replicas, on_report=self.stage.release_confirmed)
        path.disk.pass_on_to(self.stage)
        self.replica: ReplicaConnection | None = None
        self._looked_at = [0] * len(rig.clients)
        self.waived: set[int] = set()  # sends that do not wait for replicas

    # --- the replica ---

    def comes(self) -> None:
        self.replica = self.leader.replicas.connected("10.0.0.9", "10.0.0.9:1")
        self.leader.replicas.begins(self.replica, self.leader.end)
        self.leader.replicas.reported(self.replica, self.leader.end)  # it has compared
        self.leader.on_report()

    def goes(self) -> None:
        assert self.replica is not None
        self.leader.replicas.disconnected(self.replica)
        self.replica = None
        self.leader.on_report()

    def confirms(self, position: int) -> None:
        assert self.replica is not None
        self.replica.sent = self.leader.end
        self.leader.replicas.reported(self.replica, position)
        self.leader.on_report()

    def time_passes(self, milliseconds: int) -> None:
        self.rig.clock.advance_ms(milliseconds)
        self.stage.release_confirmed()

    # --- what clients see ---

    async def on_disk(self) -> None:
        """Until what has arrived is on the master's disk."""
        await turn()
        while self.path.disk._running or self.path.group_commit._scheduled:  # noqa: ASYNC110, of others
            await asyncio.sleep(0)
        await turn()

    def new_answers(self) -> list[Command]:
        """Since the last call. Whatever says that two disks have a message is true."""
        found: list[Command] = []
        for number, peer in enumerate(self.rig.clients):
            answers = [decode_command(frame) for frame in FrameDecoder().feed(peer.answered)]
            found += answers[self._looked_at[number] :]
            self._looked_at[number] = len(answers)
        confirmed = self.replica.position if self.replica is not None else -1
        for answer in found:
            if answer.code == TWICE_STORED and answer.correlation_id not in self.waived:
                last = answer.ext["msgId"].rpartition(",")[2]
                assert int(last[16:], 16) < confirmed, f"{answer} was acknowledged too early"
        return found


@asynccontextmanager
async def sync_master(rig: LaneRig) -> AsyncIterator[SyncMaster]:
    """Of a rig that is not one yet; its replica is there. In the end nothing waits any more."""
    async with rig:
        master = SyncMaster(rig)
        master.comes()
        try:
            yield master
        finally:
            if master.replica is not None:
                master.goes()


def random_send(rng: Random, number: int, waived: set[int]) -> bytes:
    text, odd = KEY + rng.choice(("", "TAGS\x01a\x02", "KEYS\x01a b\x02")), {}
    kind, queue = rng.randrange(12), rng.randrange(2)
    if kind == 0:
        text += NO_WAIT
        waived.add(number)
    elif kind == 1:
        odd = {"flag": 2}  # nobody waits for an answer
    elif kind == 2:
        body = encode_batch([BatchItem(b"x" * 50, KEY.encode(), 0)] * rng.randrange(1, 5))
        return send_frame(number, "orders", queue, None, body, code=320, ext={"m": "true"})
    return send_frame(number, "orders", queue, text, rng.randbytes(rng.randrange(300)), **odd)


async def reported_by(seed: int, flush: Flush, *, with_core: bool) -> tuple[list[Any], dict[str, Any], int]:
    """What clients and operators see after each step of a script, all that is left, how many reads the lane took."""
    rng, number, told = Random(seed), 1, []
    rig, taken = LaneRig(with_core, flush, seed), 0
    async with sync_master(rig) as master:
        if with_core:
            plain_take = rig.sends.lane.take

            def take(connection: Any, data: Any) -> int:
                nonlocal taken
                consumed: int = plain_take(connection, data)
                taken += consumed > 0
                return consumed

            rig.sends.lane.take = take
            rig.clients = [type(each)(rig.broker, rig.clock, place) for place, each in enumerate(rig.clients)]
        for _ in range(STEPS):
            match rng.randrange(10):
                case 0 if master.replica is not None:
                    master.goes()
                case 0:
                    master.comes()
                case 1:
                    master.time_passes(rng.choice((1, TIMEOUT_MS - 1, TIMEOUT_MS)))
                case 2 | 3 | 4 if master.replica is not None:
                    master.confirms(rng.randint(max(0, master.replica.position), master.leader.end))
                case _:
                    for peer in rng.sample(range(3), rng.choice((1, 1, 2, 3))):
                        frames = [random_send(rng, number + more, master.waived) for more in range(rng.randrange(1, 9))]
                        number += len(frames)
                        rig.arrive(peer, b"".join(frames))
            await master.on_disk()
            answers = [(each.correlation_id, each.code, each.remark, each.ext) for each in master.new_answers()]
            told.append((answers, master.stage.waiting, master.stage.late, master.stage.alone, master.leader.end))
        if master.replica is not None:
            master.goes()
        await master.on_disk()
        master.new_answers()
        rig.clock.advance_ms(1)
        return told, rig.outcome(), taken


@needs_core
@pytest.mark.parametrize("flush", Flush)
@pytest.mark.parametrize("seed", range(6))
async def test_lane_and_python_say_the_same_and_never_too_early(seed: int, flush: Flush) -> None:
    ours, left, taken = await reported_by(seed, flush, with_core=True)
    expected, wanted, _ = await reported_by(seed, flush, with_core=False)
    for step, (found, reference) in enumerate(zip(ours, expected, strict=True)):
        assert found == reference, f"step {step} of seed {seed}"
    assert left["files"] == wanted["files"] and left["queues"] == wanted["queues"]
    codes = {code for answers, *_ in ours for _, code, *_ in answers}
    assert taken > 20, "the lane took next to nothing"
    assert codes <= {TWICE_STORED, ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE}


@needs_core
async def test_scripts_have_all_three_answers() -> None:
    codes = set()
    for seed in range(6):
        told, _, _ = await reported_by(seed, Flush.ASYNC, with_core=True)
        codes |= {code for answers, *_ in told for _, code, *_ in answers}
    assert codes == {TWICE_STORED, ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE}


def plain(first: int, count: int = 1, text: str = KEY, **odd: Any) -> bytes:
    return b"".join(send_frame(first + more, "orders", 1, text, b"body", **odd) for more in range(count))


async def learned(rig: LaneRig, master: SyncMaster) -> None:
    rig.arrive(0, plain(1))
    await master.on_disk()
    master.confirms(master.leader.end)
    await turn()
    assert [each.code for each in master.new_answers()] == [TWICE_STORED] and rig.sends.lane.known == 1


@needs_core
@pytest.mark.parametrize("flush", Flush)
async def test_what_the_lane_took_waits_for_the_replica_and_leaves_in_one_write(flush: Flush) -> None:
    rig = LaneRig(with_core=True, flush=flush)
    async with sync_master(rig) as master:
        await learned(rig, master)
        for first in (2, 5, 8):  # three commits
            assert rig.sends.lane.take(rig.clients[0].connection, plain(first, 3)) == len(plain(first, 3))
            await master.on_disk()
        writes = len(rig.clients[0].transport.writes)
        assert master.new_answers() == [] and master.stage.waiting == 9
        master.confirms(master.leader.end - 1)
        await turn()
        assert [each.correlation_id for each in master.new_answers()] == [2, 3, 4, 5, 6, 7]
        assert len(rig.clients[0].transport.writes) == writes + 1, "one report, one write"
        master.goes()
        await turn()
        late = master.new_answers()
        assert [(each.correlation_id, each.code) for each in late] == [
            (number, ResponseCode.SLAVE_NOT_AVAILABLE) for number in (8, 9, 10)
        ]
        assert all(each.ext["queueOffset"] for each in late), "they are stored, and it says where"


@needs_core
async def test_senders_who_do_not_wait_are_left_to_python_as_long_as_there_is_something_to_wait_for() -> None:
    rig = LaneRig(with_core=True)
    async with sync_master(rig) as master:
        await learned(rig, master)
        lane, connection, waived = rig.sends.lane, rig.clients[0].connection, plain(2, text=KEY + NO_WAIT)
        master.waived = {2, 5, 6}
        assert lane.take(connection, waived) == 0
        assert lane.take(connection, plain(3) + waived) == len(plain(3)), "what stands before it is taken"
        rig.arrive(0, waived)
        await master.on_disk()
        assert [each.correlation_id for each in master.new_answers()] == [2], "it does not wait behind the other"
        master.confirms(master.leader.end)
        master.path.disk.pass_on_to(master.path.replicas)  # an async master from now on
        assert lane.take(connection, plain(4)) == 0 and lane.known == 0, "what it knew was known of a sync master"
        rig.arrive(0, plain(5))
        await rig.settle()
        assert lane.take(connection, plain(6, text=KEY + NO_WAIT)) > 0
        await rig.settle()
        assert [each.correlation_id for each in master.new_answers() if each.code == 0][-1] == 6


@needs_core
async def test_a_broker_that_becomes_a_sync_master_acknowledges_nothing_more_without_replicas() -> None:
    rig = LaneRig(with_core=True)
    async with sync_master(rig) as master:
        master.path.disk.pass_on_to(master.path.replicas)
        master.waived = {1}  # it is none yet
        rig.arrive(0, plain(1))
        await rig.settle()
        assert rig.sends.lane.known == 1 and len(rig.clients[0].transport.writes) == 1
        master.path.disk.pass_on_to(master.stage)
        rig.arrive(0, plain(2, 3))
        await master.on_disk()
        assert len(rig.clients[0].transport.writes) == 1
        master.time_passes(TIMEOUT_MS)
        await turn()
        assert [each.code for each in master.new_answers()][1:] == [ResponseCode.FLUSH_SLAVE_TIMEOUT] * 3
