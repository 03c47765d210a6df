"""The pop lane of the remoting protocol: what comes of pops and batches is the same with it and without it."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from pyromq.broker.popping import pop_lane
from pyromq.compiled_core import DESCRIPTION, core
from pyromq.model.topic import TopicConfig
from pyromq.store.settings import Flush
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.fast.responses import pop_response_pieces, success_pieces
from pyromq.wire.frame import FRAME_BYTES_MAX, FrameDecoder
from pyromq.wire.headers.pop import PopResponseHeader
from pyromq.wire.json.batch_ack import BatchAck, bits_of, decode_batch_ack, encode_batch_ack
from pyromq.wire.received import Received, decode_received
from tests.running.seeds import seeds
from tests.unit.broker.popping.pop_rig import number_by_key
from tests.unit.broker.popping.test_ack_lane import in_reads
from tests.unit.broker.sending.lane_rig import LaneRig, send_frame

needs_core = pytest.mark.skipif(core is None, reason=f"nothing to compare: {DESCRIPTION}")
TOPIC, GROUP = "orders", "billing"


def frame(code: int, number: int, ext: dict[str, str] | None, body: bytes = b"", **odd: Any) -> bytes:
    """As Java's client writes it."""
    header: dict[str, Any] = {"code": code} | ({"extFields": ext} if ext is not None else {})
    header |= {"flag": 0, "language": "JAVA", "opaque": number, "serializeTypeCurrentRPC": "JSON", "version": 401}
    text = json.dumps(header | odd, separators=(",", ":")).encode()
    return (len(text) + len(body) + 4).to_bytes(4, "big") + len(text).to_bytes(4, "big") + text + body


def pop_ext(count: int, **changes: str) -> dict[str, str]:
    ext = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "-1", "maxMsgNums": str(count), "pollTime": "0"}
    ext |= {"invisibleTime": "30000", "bornTime": "0", "initMode": "0", "expType": "TAG", "exp": "*", "order": "false"}
    return ext | changes


class Poppers:
    """Clients that pop and acknowledge; every request has a number of its own."""

    def __init__(self, rig: LaneRig) -> None:
        self._rig = rig
        self.number = 0
        rig.broker.parts.tables.topics.update(TopicConfig(topic_name=TOPIC, read_queue_nums=3, write_queue_nums=3))
        number_by_key(rig.broker.parts.popping.pops)

    def next(self) -> int:
        self.number += 1
        return self.number

    async def send(self, rng: Random, count: int) -> None:
        data = b""
        for _ in range(count):
            number, tag = self.next(), rng.choice(("", "TAGS\x01a\x02", "TAGS\x01b\x02"))
            properties = f"{tag}UNIQ_KEY\x01{number:032X}\x02"
            data += send_frame(number, TOPIC, rng.randrange(3), properties, b"x" * rng.choice((1, 50, 900)))
        if data:
            self._rig.arrive(2, data)
        await self._rig.settle()

    def responses(self) -> dict[int, Received[Any]]:
        found = map(decode_received, FrameDecoder().feed(self._rig.clients[0].answered))
        return {each.correlation_id: each for each in found}


def some_pop(rng: Random, poll_ms: str) -> tuple[dict[str, str], dict[str, Any]]:
    """Fields of a pop, mostly plain; and what is odd about its header."""
    ext = pop_ext(rng.choice((1, 5, 32)), bornTime=str(rng.randrange(1 << 40)))
    if rng.random() < 0.3:
        ext |= {"queueId": rng.choice(("0", "1", "2"))}
    if rng.random() < 0.3:
        ext |= {"exp": rng.choice(("a", "a || b", "", "ä"))}
    if rng.random() < 0.2:
        ext |= {"consumerGroup": "others"}
    if rng.random() < 0.2:
        ext |= {"pollTime": poll_ms}
    if rng.random() < 0.15:
        odd = (
            {"queueId": "9"},
            {"maxMsgNums": "0"},
            {"invisibleTime": "0"},
            {"topic": "absent"},
            {"exp": "b", "ns": "x"},
        )
        more = {"order": "true"}, {"attemptId": "again"}, {"maxMsgNums": "five"}, {"expType": "SQL92", "exp": "a = 1"}
        ext |= rng.choice((*odd, *more))
    return ext, {"flag": 2} if rng.random() < 0.03 else {}


def batch_of(rng: Random, popped: list[Received[Any]]) -> bytes:
    """The body of a batch for messages of these responses, some of which are not good."""
    acks = []
    for response in popped:
        fields = response.header_as(PopResponseHeader)
        starts = dict(entry.split(" ")[1:] for entry in (fields.start_offset_info or "").split(";"))
        for entry in (fields.msg_offset_info or "").split(";"):
            _, queue, text = entry.split(" ")
            offsets = [each for each in map(int, text.split(",")) if rng.random() < 0.8]
            if offsets or rng.random() < 0.2:
                start, number = int(starts[queue]), fields.revive_qid + (rng.random() < 0.1)
                bits, kind = bits_of(start, offsets), rng.choice("00000001")
                ack = BatchAck(
                    group=rng.choice((GROUP,) * 9 + ("strangers",)),
                    topic=TOPIC,
                    kind=kind,
                    start=start,
                    queue_id=int(queue),
                    number=number,
                    popped_ms=fields.pop_time,
                    bits=bits if rng.random() < 0.95 else "?" + bits,
                )
                acks.append(ack)
    return encode_batch_ack(acks, "broker")


async def outcome_of(seed: int, flush: Flush, *, with_core: bool) -> tuple[dict[str, Any], int]:
    """Pops wait where segments are long: others end commits of sends, and so move what woken pops have written."""
    rng, waits = Random(seed), bool(seed % 2)
    async with LaneRig(with_core, flush, seed, store={"segment_bytes": 1 << 20} if waits else {}) as rig:
        poppers, taken = Poppers(rig), [0]
        if rig.pops.lane is not None:
            count_taken(rig, taken)
        pops: list[int] = []
        await poppers.send(rng, 5)
        for _ in range(16):
            rig.broker.parts.popping.pops.tick()
            await rig.settle()
            await poppers.send(rng, rng.choice((0, 5, 40)))
            rig.clock.advance_ms(rng.choice((0, 10, 600, 31_000)))
            rig.broker.parts.popping.pops.waiting.respond_due()
            rig.broker.parts.popping.pops.tick()  # hand-outs join the next commit; commits of sends are another test's
            await rig.settle()
            known = poppers.responses()
            popped = [known[number] for number in pops[-4:] if number in known and not known[number].code]
            data = b""
            for _ in range(rng.randrange(1, 5)):
                number = poppers.next()
                if rng.random() < 0.6 or not popped:
                    ext, odd = some_pop(rng, "500" if waits else "0")
                    data += frame(RequestCode.POP_MESSAGE, number, ext, **odd)
                    pops.append(number)
                else:
                    ext_of_batch = rng.choice((None, {}, {"bname": "b"}))
                    data += frame(RequestCode.BATCH_ACK_MESSAGE, number, ext_of_batch, batch_of(rng, popped))
            await in_reads(rig, data, rng)
        outcome = rig.outcome()
        known = poppers.responses()
        outcome["responses"] = {
            number: (each.code, each.remark, each.header, each.body) for number, each in known.items()
        }
        outcome["clients"] = [facts[:4] for facts in outcome["clients"]]  # responses of one turn may change places
        parts = rig.broker.parts
        outcome["rows"] = {
            name: (each.low, each.next, {o: (r.number, r.until_ms, r.attempts) for o, r in each.rows.items()})
            for name, each in parts.popping.pops.table.queues.items()
        }
        counters = parts.stats.counters
        outcome["pulls"] = counters.pulls_found, counters.pulls_missed, counters.pulled_messages, counters.pulled_bytes
        codes = (RequestCode.POP_MESSAGE, RequestCode.BATCH_ACK_MESSAGE)
        latency = counters.requests.latency
        outcome["times"] = {key: each.count for key, each in latency.items() if key[0] in codes}
        outcome["refused"] = dict(counters.requests.refused)
    rig.assert_derived_again()
    return outcome, taken[0]


def count_taken(rig: LaneRig, taken: list[int]) -> None:
    """Count pops and batches that the lane takes."""
    takes = rig.pops.lane._takes
    for code in (b"200050", b"200151"):

        def counted(connection: Any, data: Any, take: Any = takes[code]) -> int:
            consumed: int = take(connection, data)
            taken[0] += consumed > 0
            return consumed

        takes[code] = counted


@needs_core
@pytest.mark.parametrize("flush", [Flush.ASYNC, Flush.SYNC])
@pytest.mark.parametrize("seed", seeds(8))
async def test_the_same_pops_and_batches_bring_about_the_same(seed: int, flush: Flush) -> None:
    found, taken = await outcome_of(seed, flush, with_core=True)
    expected, none = await outcome_of(seed, flush, with_core=False)
    for name, value in expected.items():
        assert found[name] == value, name
    assert none == 0
    assert taken > 4, "the lane has to take what is plain"
    codes = {code for code, *_ in found["responses"].values()}
    assert ResponseCode.SUCCESS in codes and len(codes) > 1


@needs_core
async def test_the_lane_knows_what_was_popped_before_and_plans_decide_each_time() -> None:
    async with LaneRig(with_core=True) as rig:
        poppers, rng, taken = Poppers(rig), Random(1), [0]
        count_taken(rig, taken)
        await poppers.send(rng, 6)
        for number in (101, 102):
            rig.arrive(0, frame(RequestCode.POP_MESSAGE, number, pop_ext(1)))
            await rig.settle()
        assert (rig.pops.lane.known, taken[0]) == (1, 1)
        groups = rig.broker.parts.tables.groups
        groups.allow_read(GROUP, TOPIC, readable=False)
        rig.arrive(0, frame(RequestCode.POP_MESSAGE, 103, pop_ext(1)))
        await rig.settle()
        groups.allow_read(GROUP, TOPIC, readable=True)
        rig.arrive(0, frame(RequestCode.POP_MESSAGE, 104, pop_ext(1)))
        await rig.settle()
        codes = [poppers.responses()[number].code for number in (101, 102, 103, 104)]
        assert codes == [ResponseCode.SUCCESS, ResponseCode.SUCCESS, ResponseCode.NO_PERMISSION, ResponseCode.SUCCESS]
        assert taken[0] == 2


@needs_core
async def test_as_many_kinds_are_known_as_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pop_lane, "KNOWN_MAX", 2)
    async with LaneRig(with_core=True) as rig:
        poppers = Poppers(rig)
        await poppers.send(Random(1), 20)
        for number, count in enumerate((1, 2, 3)):
            rig.arrive(0, frame(RequestCode.POP_MESSAGE, 100 + number, pop_ext(count)))
            await rig.settle()
        assert rig.pops.lane.known == 1
        rig.arrive(0, frame(RequestCode.POP_MESSAGE, 200, pop_ext(1, exp="x" * 600)))
        await rig.settle()
        assert rig.pops.lane.known == 1


@needs_core
async def test_pops_of_a_broker_that_stops_are_not_the_lanes() -> None:
    async with LaneRig(with_core=True) as rig:
        poppers, taken = Poppers(rig), [0]
        count_taken(rig, taken)
        await poppers.send(Random(1), 6)
        rig.arrive(0, frame(RequestCode.POP_MESSAGE, 101, pop_ext(1)))
        await rig.settle()
        rig.broker.dispatcher.refuse_late()
        rig.arrive(0, frame(RequestCode.POP_MESSAGE, 102, pop_ext(1)))
        await rig.settle()
        assert not rig.pops.lane.is_open and taken[0] == 0


@needs_core
async def test_a_batch_is_not_answered_before_it_is_safe() -> None:
    async with LaneRig(True, Flush.SYNC) as rig:
        poppers, rng, taken = Poppers(rig), Random(1), [0]
        count_taken(rig, taken)
        await poppers.send(rng, 4)
        rig.arrive(0, frame(RequestCode.POP_MESSAGE, 101, pop_ext(32)))
        await rig.settle()
        fields = poppers.responses()[101].header_as(PopResponseHeader)
        _, queue, offsets = (fields.msg_offset_info or "").split(";")[0].split(" ")
        first = int(offsets.split(",")[0])
        ack = BatchAck(
            group=GROUP,
            topic=TOPIC,
            start=first,
            queue_id=int(queue),
            number=fields.revive_qid,
            popped_ms=fields.pop_time,
            bits=bits_of(first, [first]),
        )
        rig.disk.fail_syncs()
        rig.arrive(0, frame(RequestCode.BATCH_ACK_MESSAGE, 102, {}, encode_batch_ack([ack], "broker")))
        for _ in range(3):
            await rig.settle()
        assert taken[0] == 1
        assert poppers.responses()[102].code not in (ResponseCode.SUCCESS, ResponseCode.NO_MESSAGE)
        assert sum(len(queue.rows) for queue in rig.broker.parts.popping.pops.table.queues.values()) == 4


def test_the_pieces_of_a_response_are_its_text_around_seven_places() -> None:
    pieces = pop_response_pieces()
    assert len(pieces) == 8
    text = b"1".join(pieces)
    assert json.loads(text)["extFields"]["msgOffsetInfo"] == "1"


def damaged(rng: Random, data: bytes) -> bytes:
    found = bytearray(data)
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        at = rng.randrange(8, len(found))
        found[at : at + rng.choice((0, 1, 1, 2))] = rng.choice(
            (b"", b"0", b'"', b"{}", b",", b"\\", b"9", b" ", b"=", b"Z")
        )
    return bytes(found)


def framed(data: bytes, header_bytes: int) -> bytes:
    return (len(data) - 4).to_bytes(4, "big") + header_bytes.to_bytes(4, "big") + data[8:]


@needs_core
def test_what_the_core_reads_of_a_batch_is_what_python_reads() -> None:
    assert core is not None
    rng, read = Random(11), 0
    ack = BatchAck(group=GROUP, topic=TOPIC, start=100, queue_id=2, number=7, popped_ms=1_700_000_000_000, bits="CQI=")
    for number in range(4_000):
        body = encode_batch_ack([ack, ack][: 1 + number % 2], "broker")
        body = damaged(rng, b"." * 8 + body)[8:]
        data = frame(RequestCode.BATCH_ACK_MESSAGE, number, rng.choice((None, {}, {"bname": "b"})), body)
        found = core.take_batch_ack(data, FRAME_BYTES_MAX, success_pieces())
        if found is None:
            continue
        read += 1
        end, opaque, acks, response = found
        expected = decode_batch_ack(body)
        assert acks == [(e.group, e.topic, e.queue_id, e.number, e.popped_ms, e.offsets) for e in expected]
        assert {each.kind for each in expected} == {"0"}
        assert (end, opaque) == (len(data), number)
        assert decode_received(FrameDecoder().feed(response)[0]).correlation_id == number
    assert 1_000 < read < 4_000


@needs_core
def test_what_the_core_takes_for_a_pop_is_one_of_its_kind() -> None:
    assert core is not None
    lane = core.PopLane(None, None, (1, 1, 1, 1, 1, 1), FRAME_BYTES_MAX, pop_response_pieces())
    lane.learn((GROUP, TOPIC, -1, 32, 30_000, 0, "*", "TAG"), "known")
    rng, read = Random(12), 0
    plain = frame(RequestCode.POP_MESSAGE, 77, pop_ext(32))
    header_bytes = int.from_bytes(plain[5:8], "big")
    for _ in range(4_000):
        data = damaged(rng, plain)
        data = framed(data, header_bytes + len(data) - len(plain))
        found = lane.take(data)
        if found is None:
            continue
        read += 1
        request = decode_received(FrameDecoder().feed(data)[0])
        header = request.header
        assert (found[0], found[1], found[2]) == (len(data), "known", request.correlation_id)
        assert (header.consumer_group, header.topic, header.queue_id) == (GROUP, TOPIC, -1)
        assert (header.max_msg_nums, header.invisible_time, header.init_mode) == (32, 30_000, 0)
        assert (header.exp, header.exp_type, header.order, header.attempt_id) == ("*", "TAG", header.order, None)
        assert not header.order and not request.is_oneway
    assert 500 < read < 4_000
