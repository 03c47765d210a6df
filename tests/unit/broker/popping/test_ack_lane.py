"""The acknowledgement lane of the remoting protocol: what comes of requests is the same with it and without it."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from pyromq.compiled_core import DESCRIPTION, core
from pyromq.model.names import POP_JOURNAL_TOPIC
from pyromq.model.topic import TopicConfig
from pyromq.store.settings import Flush
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.command import encode_request
from pyromq.wire.frame import FrameDecoder
from pyromq.wire.headers.pop import PopResponseHeader
from pyromq.wire.received import Received, decode_received
from tests.running.seeds import seeds
from tests.unit.broker.popping.pop_rig import number_by_key
from tests.unit.broker.sending.lane_rig import LaneRig, send_frame

needs_core = pytest.mark.skipif(core is None, reason=f"nothing to compare: {DESCRIPTION}")
TOPIC, GROUP = "orders", "billing"


class Poppers:
    """Clients that pop and acknowledge; every request has a number of its own."""

    def __init__(self, rig: LaneRig) -> None:
        self._rig = rig
        self.number = 0
        config = TopicConfig(topic_name=TOPIC, read_queue_nums=2, write_queue_nums=2)
        rig.broker.parts.tables.topics.update(config)
        number_by_key(rig.broker.parts.popping.pops)

    def next(self) -> int:
        self.number += 1
        return self.number

    def responses(self, client: int = 0) -> dict[int, Received[Any]]:
        """By the number of the request."""
        found = map(decode_received, FrameDecoder().feed(self._rig.clients[client].answered))
        return {each.correlation_id: each for each in found}

    async def send(self, count: int) -> None:
        data = b"".join(
            send_frame(number := self.next(), TOPIC, number % 2, f"UNIQ_KEY\x01{number:032X}\x02", b"x" * 50)
            for _ in range(count)
        )
        self._rig.arrive(2, data)
        await self._rig.settle()

    async def pop(self, count: int) -> list[dict[str, str]]:
        """Fields of an acknowledgement for each message."""
        ext = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "-1", "maxMsgNums": str(count), "pollTime": "0"}
        ext |= {"invisibleTime": "30000", "bornTime": "0", "initMode": "0", "expType": "TAG", "exp": "*"}
        number = self.next()
        self._rig.arrive(0, encode_request(RequestCode.POP_MESSAGE, number, ext))
        await self._rig.settle()
        response = self.responses()[number]
        return acks_of(response.header_as(PopResponseHeader)) if not response.code else []


def acks_of(popped: PopResponseHeader) -> list[dict[str, str]]:
    starts = dict(entry.split(" ")[1:] for entry in (popped.start_offset_info or "").split(";"))
    found = []
    for entry in (popped.msg_offset_info or "").split(";"):
        _, queue, offsets = entry.split(" ")
        for offset in offsets.split(","):
            words = f"{starts[queue]} {popped.pop_time} 30000 {popped.revive_qid} 0 broker {queue} {offset}"
            ext = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": queue, "extraInfo": words, "offset": offset}
            found.append(ext)
    return found


def ack(number: int, ext: dict[str, str], **odd: Any) -> bytes:
    """As Java's client writes it."""
    header = {"code": 200051, "extFields": ext, "flag": 0, "language": "JAVA", "opaque": number}
    text = json.dumps(
        header | {"serializeTypeCurrentRPC": "JSON", "version": 401} | odd, separators=(",", ":")
    ).encode()
    return (len(text) + 4).to_bytes(4, "big") + len(text).to_bytes(4, "big") + text


def oddly(rng: Random, ext: dict[str, str]) -> dict[str, str]:
    words = ext["extraInfo"].split(" ")
    words[rng.choice((1, 3, 6, 7))] = rng.choice(("1", "+2", "x", "", "9" * 19))
    return rng.choice(
        (
            ext | {"extraInfo": " ".join(words)},
            ext | {"consumerGroup": "strangers"},
            ext | {"topic": "elsewhere"},
            ext | {"queueId": "7"},
            ext | {"offset": "12345"},
            {name: value for name, value in ext.items() if name != "offset"},
            ext | {"bname": "b", "ns": "true"},
        )
    )


class Counted:
    """Counts requests that a lane takes."""

    def __init__(self, rig: LaneRig) -> None:
        self.taken = 0
        if rig.pops.lane is not None:
            self._settled, rig.pops.lane.acks._settled = rig.pops.lane.acks._settled, self._note

    def _note(self, connection: Any, numbers: list[int], *rest: Any) -> None:
        self.taken += len(numbers)
        self._settled(connection, numbers, *rest)


async def outcome_of(seed: int, flush: Flush, *, with_core: bool) -> tuple[dict[str, Any], int]:
    rng = Random(seed)
    async with LaneRig(with_core, flush, seed) as rig:
        poppers, counted, known = Poppers(rig), Counted(rig), list[dict[str, str]]()
        await poppers.send(2)
        for _ in range(12):
            await poppers.send(rng.choice((0, 5, 20)))
            rig.clock.advance_ms(rng.choice((0, 10, 31_000)))
            known = await poppers.pop(rng.choice((1, 5, 32))) + known[:3]  # these are acknowledged twice
            asked = [ext if rng.random() < 0.9 else oddly(rng, ext) for ext in known if rng.random() < 0.8]
            odd = [{"flag": 2} if rng.random() < 0.03 else {} for _ in asked]
            data = b"".join(ack(poppers.next(), ext, **more) for ext, more in zip(asked, odd, strict=True))
            await in_reads(rig, data, rng)
        outcome = rig.outcome()
        outcome["responses"] = {number: (each.code, each.remark) for number, each in poppers.responses().items()}
        outcome["clients"] = [facts[:4] for facts in outcome["clients"]]  # responses of one turn may change places
        table, times = rig.broker.parts.popping.pops.table, rig.broker.parts.stats.counters.requests
        outcome["rows"] = {name: (each.low, each.next, sorted(each.rows)) for name, each in table.queues.items()}
        latency = {key: each.count for key, each in times.latency.items()}
        outcome["times"] = {key: count for key, count in latency.items() if key[0] == RequestCode.ACK_MESSAGE}
        outcome["refused"] = dict(times.refused)
    rig.assert_derived_again()
    return outcome, counted.taken


async def in_reads(rig: LaneRig, data: bytes, rng: Random) -> None:
    """Have these arrive in reads that end anywhere."""
    while data:
        cut = len(data) if rng.random() < 0.7 else rng.randrange(len(data)) + 1
        rig.arrive(0, data[:cut])
        data = data[cut:]
        if rng.random() < 0.5:
            await rig.settle()
    await rig.settle()


@needs_core
@pytest.mark.parametrize("flush", [Flush.ASYNC, Flush.SYNC])
@pytest.mark.parametrize("seed", seeds(6))
async def test_the_same_acknowledgements_bring_about_the_same(seed: int, flush: Flush) -> None:
    found, taken = await outcome_of(seed, flush, with_core=True)
    expected, none = await outcome_of(seed, flush, with_core=False)
    for name, value in expected.items():
        assert found[name] == value, name
    assert none == 0
    assert taken > 30, "the lane has to take what is plain"
    codes = {code for code, _ in found["responses"].values()}
    assert {ResponseCode.SUCCESS, ResponseCode.NO_MESSAGE} <= codes


@needs_core
async def test_acknowledgements_of_one_read_share_a_record_and_a_write() -> None:
    async with LaneRig(with_core=True) as rig:
        poppers = Poppers(rig)
        await poppers.send(20)
        known = await poppers.pop(32)
        rig.broker.parts.popping.pops.tick()
        await rig.settle()
        before, writes = rig.broker.store.queues[POP_JOURNAL_TOPIC, 0].next_offset, len(rig.clients[0].transport.writes)
        numbers = [poppers.next() for _ in known]
        rig.arrive(0, b"".join(ack(number, ext) for number, ext in zip(numbers, known, strict=True)))
        await rig.settle()
        assert rig.broker.store.queues[POP_JOURNAL_TOPIC, 0].next_offset == before + 1
        assert len(rig.clients[0].transport.writes) == writes + 1
        assert {poppers.responses()[number].code for number in numbers} == {0} and len(numbers) == 20
        assert not any(queue.rows for queue in rig.broker.parts.popping.pops.table.queues.values())


@needs_core
async def test_nothing_is_answered_before_it_is_safe() -> None:
    async with LaneRig(True, Flush.SYNC) as rig:
        poppers = Poppers(rig)
        await poppers.send(2)
        (first, *_) = await poppers.pop(32)
        rig.disk.fail_syncs()
        number = poppers.next()
        rig.arrive(0, ack(number, first))
        for _ in range(3):
            await rig.settle()
        assert poppers.responses()[number].code not in (ResponseCode.SUCCESS, ResponseCode.NO_MESSAGE)
        assert sum(len(queue.rows) for queue in rig.broker.parts.popping.pops.table.queues.values()) == 2


@needs_core
async def test_a_broker_that_stops_refuses_acknowledgements() -> None:
    async with LaneRig(with_core=True) as rig:
        poppers = Poppers(rig)
        await poppers.send(1)
        (only,) = await poppers.pop(32)
        rig.broker.dispatcher.refuse_late()
        assert not rig.pops.lane.is_open
        number = poppers.next()
        rig.arrive(0, ack(number, only))
        await rig.settle()
        assert poppers.responses()[number].code
