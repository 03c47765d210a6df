"""The pull lane: what it answers, what keeps it from answering, and that it answers as ``PullHandler`` does.

With the compiled core, and in Python.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any

import pytest

from pyromq.broker.commit.disk_stage import DiskStage
from pyromq.broker.dispatching import dispatcher as dispatcher_module
from pyromq.broker.pulling import pull as pull_module
from pyromq.broker.pulling import pull_lane
from pyromq.broker.sending import send as send_module
from pyromq.compiled_core import DESCRIPTION, core
from pyromq.model.topic import GroupConfig, TopicConfig
from pyromq.net.turns import TURN_S
from pyromq.store import queue_scan
from pyromq.store.settings import Flush
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.command import Command, decode_command, encode_request
from pyromq.wire.frame import FrameDecoder, SerializeType
from tests.running.seeds import seeds
from tests.unit.broker.sending.lane_rig import LaneRig, Peer, random_frame, send_frame
from tests.unit.broker.sending.test_one_truth import compare
from tests.unit.broker.sending.test_signed_lane import ACCESS

_SEEDS = int(os.environ.get("PYROMQ_TRUTH_SEEDS", "8"))
_STEPS = 60
COMMIT, SUSPEND, SUBSCRIPTION = 1, 2, 4


@pytest.fixture(autouse=True, params=["core", "python"])
def lane_kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    kind: str = request.param
    if kind == "core" and core is None:
        pytest.skip(f"there is no such lane: {DESCRIPTION}")
    if kind == "python":
        without_core(monkeypatch)
    return kind


def without_core(patch: pytest.MonkeyPatch) -> None:
    for module in (dispatcher_module, pull_module, send_module, queue_scan):
        patch.setattr(module, "core", None)


def pull_frame(number: int, offset: Any = 0, **odd: Any) -> bytes:
    """As Java's client writes it; ``odd`` has other values for fields of the header, and ``ext`` for ext fields."""
    ext = {"consumerGroup": "readers", "topic": "orders", "queueId": "1", "queueOffset": str(offset)}
    ext |= {"maxMsgNums": "32", "sysFlag": str(SUBSCRIPTION), "commitOffset": "0", "suspendTimeoutMillis": "15000"}
    ext |= {"subscription": "*", "subVersion": "0", "expressionType": "TAG"} | odd.pop("ext", {})
    header = {"code": 11, "extFields": {name: value for name, value in ext.items() if value is not None}, "flag": 0}
    header |= {"language": "JAVA", "opaque": number, "serializeTypeCurrentRPC": "JSON", "version": 401} | odd
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
    return (len(text) + 4).to_bytes(4, "big") + len(text).to_bytes(4, "big") + text


def heartbeat_frame(number: int, subscriptions: dict[str, str], version: int = 0, model: str = "CLUSTERING") -> bytes:
    group = {"groupName": "readers", "consumeType": "CONSUME_PASSIVELY", "messageModel": model}
    group |= {"consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "unitMode": False}
    group["subscriptionDataSet"] = [
        {"topic": topic, "subString": text, "subVersion": version, "expressionType": "TAG", "classFilterMode": False}
        for topic, text in subscriptions.items()
    ]
    body = {"clientID": "reader@1", "producerDataSet": [], "consumerDataSet": [group]}
    return encode_request(RequestCode.HEART_BEAT, number, body=json.dumps(body).encode())


def sends(first: int, count: int, size: int = 300, tag: str = "TagA") -> bytes:
    text = "UNIQ_KEY\x017F0000010000000000000000\x02TAGS\x01" + tag
    return b"".join(
        send_frame(number, "orders", 1, text, bytes([number % 256]) * size) for number in range(first, first + count)
    )


def answers(peer: Peer) -> list[tuple[Command, bytes]]:
    return [(decode_command(frame), frame.body) for frame in FrameDecoder().feed(peer.answered)]


async def learned(rig: LaneRig, **odd: Any) -> None:
    """Messages, and one pull the ordinary way, after which the lane knows its kind."""
    rig.arrive(0, sends(1, 40))
    await rig.settle()
    rig.arrive(1, pull_frame(100, **odd))
    await rig.settle()
    assert rig.pulls.lane.known == 1


def taken(rig: LaneRig, data: bytes, number: int = 1) -> int:
    """How many bytes the lane takes of them, without anything else."""
    return int(rig.pulls.lane.take(rig.clients[number].connection, data))


# --- what it takes ---


async def test_what_python_has_not_answered_before_is_not_taken() -> None:
    async with LaneRig(with_core=True) as rig:
        rig.arrive(0, sends(1, 5))
        await rig.settle()
        assert taken(rig, pull_frame(1)) == 0
        rig.arrive(1, pull_frame(2))
        assert taken(rig, data := pull_frame(3, 2, ext={"maxMsgNums": "2"})) == len(data)
        for other in ({"queueId": "2"}, {"consumerGroup": "others"}, {"subscription": "TagB"}, {"subVersion": "1"}):
            assert taken(rig, pull_frame(4, ext=other)) == 0
        for other in ({"sysFlag": "6"}, {"expressionType": None}, {"topic": "payments"}, {"maxMsgBytes": "0"}):
            assert taken(rig, pull_frame(4, ext=other)) == 0


async def test_it_answers_what_python_would_have_answered() -> None:
    async with LaneRig(with_core=True) as rig:
        await learned(rig)
        before, lane = len(answers(rig.clients[1])), rig.pulls.lane
        rig.arrive(1, data := pull_frame(7, 3, ext={"maxMsgNums": "4"}))
        rig.pulls.lane = None
        rig.arrive(2, data)
        (command, body) = answers(rig.clients[1])[before]
        assert [(command, body)] == answers(rig.clients[2])
        assert command.code == ResponseCode.SUCCESS and body
        assert lane.known == 1


async def test_retry_topics_are_pythons() -> None:
    async with LaneRig(with_core=True) as rig:
        rig.broker.parts.tables.groups.require("readers")
        text = "UNIQ_KEY\x017F0000010000000000000000\x02"
        rig.arrive(0, send_frame(1, "%RETRY%readers", 0, text, b"once more"))
        await rig.settle()
        rig.arrive(1, again := pull_frame(2, ext={"topic": "%RETRY%readers", "queueId": "0"}))
        assert answers(rig.clients[1])[-1][0].code == ResponseCode.SUCCESS
        assert taken(rig, again) == 0


async def test_it_takes_whole_frames_and_leaves_the_rest() -> None:
    async with LaneRig(with_core=True) as rig:
        await learned(rig)
        data = pull_frame(2) + pull_frame(3)
        for cut in range(1, len(data)):
            assert taken(rig, data[:cut]) == (len(data) // 2) * (2 * cut // len(data))
        other = encode_request(RequestCode.GET_MAX_OFFSET, 7, {"topic": "orders", "queueId": "1"})
        assert taken(rig, pull_frame(2) + other + pull_frame(3)) == len(pull_frame(2))
        assert taken(rig, pull_frame(2) + sends(7, 1)) == len(pull_frame(2))


async def test_pulls_that_find_nothing_or_are_odd_are_pythons(lane_kind: str) -> None:
    async with LaneRig(with_core=True) as rig:
        await learned(rig)
        for offset in (40, 41, -1, 1 << 40):
            assert taken(rig, pull_frame(1, offset)) == 0
        for odd in ({"flag": 2}, {"flag": 1}, {"code": 361}, {"code": 12}, {"ext": {"queueOffset": "x"}}):
            assert taken(rig, pull_frame(1, **odd)) == 0
        for odd in ({"remark": "hello"}, {"language": 12}):
            assert (taken(rig, pull_frame(1, **odd)) == 0) == (lane_kind == "core"), "what decodes all is not so strict"
        binary = encode_request(RequestCode.PULL_MESSAGE, 1, {"topic": "orders"}, serialize_type=SerializeType.ROCKETMQ)
        assert taken(rig, binary) == 0
        body = pull_frame(1)
        assert taken(rig, (len(body) - 3).to_bytes(4, "big") + body[4:] + b"x") == 0, "a pull with a body"
        assert taken(rig, pull_frame(1)) > 0


async def test_a_pull_that_waits_is_woken_by_a_message_as_ever() -> None:
    async with LaneRig(with_core=True) as rig:
        await learned(rig, ext={"sysFlag": str(SUSPEND | SUBSCRIPTION)})
        before = len(answers(rig.clients[1]))
        rig.arrive(1, pull_frame(7, 40, ext={"sysFlag": str(SUSPEND | SUBSCRIPTION)}))
        assert len(rig.broker.parts.waiters) == 1
        rig.arrive(0, sends(50, 1))
        await rig.settle()
        assert len(rig.broker.parts.waiters) == 0
        assert [(command.code, bool(body)) for command, body in answers(rig.clients[1])[before:]] == [(0, True)]


async def test_a_woken_pull_and_its_send_are_answered_in_the_same_turn() -> None:
    async with LaneRig(with_core=True) as rig:
        await learned(rig, ext={"sysFlag": str(SUSPEND | SUBSCRIPTION)})
        for number in (7, 8):
            rig.arrive(1, pull_frame(number, 40, ext={"sysFlag": str(SUSPEND | SUBSCRIPTION)}))
        before, sent = len(rig.clients[1].transport.writes), len(rig.clients[0].transport.writes)
        rig.arrive(0, sends(50, 1))
        rig.broker.parts.write_path.group_commit.commit_now()
        assert len(rig.clients[0].transport.writes) == sent + 1
        assert len(rig.clients[1].transport.writes) == before + 1, "both in one write"
        assert len(FrameDecoder().feed(rig.clients[1].transport.writes[-1])) == 2


async def test_a_read_full_of_pulls_is_answered_in_order(lane_kind: str) -> None:
    async with LaneRig(with_core=True) as rig:
        await learned(rig)
        before = len(answers(rig.clients[1]))
        rig.arrive(1, b"".join(pull_frame(number, number % 40) for number in range(400)))
        await rig.settle()
        found = answers(rig.clients[1])[before:]
        assert [command.correlation_id for command, _ in found] == list(range(400))
        assert {command.code for command, _ in found} == {ResponseCode.SUCCESS}


async def test_records_that_take_long_to_read_end_the_turn(lane_kind: str) -> None:
    async with LaneRig(with_core=True) as rig:
        await learned(rig)
        data, times = pull_frame(1), count(step=TURN_S * 0.45)
        if lane_kind == "python":  # the core has a clock of its own
            rig.pulls.lane._lane._now_s = lambda: next(times)
        assert taken(rig, data * 10) == len(data) * (10 if lane_kind == "core" else 4)


async def test_large_messages_are_sent_from_where_they_lie(lane_kind: str) -> None:
    async with LaneRig(with_core=True) as rig:
        rig.arrive(0, sends(1, 3, 15_000) + sends(4, 5))
        await rig.settle()
        for _ in range(2):
            rig.arrive(1, pull_frame(100))
        (first, body), (second, again) = answers(rig.clients[1])
        assert body == again and first.ext == second.ext
        large = pull_frame(101, ext={"maxMsgNums": "2"})
        assert taken(rig, large) == len(large)
        head, *parts = rig.clients[1].connection._queue
        assert body.startswith(b"".join(parts)) and all(isinstance(part, memoryview) for part in parts)
        assert len(head) < 1000


async def test_without_the_core_a_connection_has_the_lane_from_its_first_pull_on(lane_kind: str) -> None:
    async with LaneRig(with_core=True) as rig:
        await learned(rig)
        has_it = [each.connection._fast_path is not None for each in rig.clients]
        assert has_it == ([True] * 3 if lane_kind == "core" else [False, True, False])
        rig.arrive(2, pull_frame(1))
        assert rig.clients[2].connection._fast_path is not None
        before = len(answers(rig.clients[2]))
        rig.arrive(2, sends(41, 1) + pull_frame(2) + pull_frame(3))
        rig.arrive(2, pull_frame(4) + sends(42, 1))
        await rig.settle()
        found = answers(rig.clients[2])[before:]
        assert sorted(command.correlation_id for command, _ in found) == [2, 3, 4, 41, 42]
        assert {command.code for command, _ in found} == {ResponseCode.SUCCESS}


async def test_a_connection_whose_reads_it_cannot_serve_gives_it_up(lane_kind: str) -> None:
    async with LaneRig(with_core=True) as rig:
        await learned(rig)
        connection = rig.clients[1].connection
        for reads in (pull_frame(1, 40), sends(50, 1)):  # it is at the end; it sends
            for _ in range(2):
                rig.arrive(1, reads)
                rig.arrive(1, pull_frame(2))
            assert connection.has_fast_path, "not in a row"
            for _ in range(3):
                rig.arrive(1, reads)
            await rig.settle()
            assert connection.has_fast_path == (lane_kind == "core")
            rig.arrive(1, pull_frame(3))
            assert connection.has_fast_path
        rig.broker.store.log.trusted_from = rig.broker.store.end_position
        for _ in range(5):
            rig.arrive(1, pull_frame(4))
        assert connection.has_fast_path == (lane_kind == "core"), "recovery has not verified what it reads"
        assert {command.code for command, body in answers(rig.clients[1]) if body} == {ResponseCode.SUCCESS}


async def test_where_users_are_asked_for_there_is_no_lane_without_the_core(lane_kind: str) -> None:
    async with LaneRig(with_core=True, settings={"access": ACCESS}) as rig:
        assert (rig.pulls.lane is not None) == (lane_kind == "core")


# --- what closes or empties it ---

Change = Callable[[LaneRig], object]
CHANGES: dict[str, Change] = {
    "topic not readable": lambda rig: rig.broker.parts.tables.topics.update(TopicConfig(topic_name="orders", perm=2)),
    "fewer queues": lambda rig: rig.broker.parts.tables.topics.update(
        TopicConfig(topic_name="orders", read_queue_nums=1, write_queue_nums=1)
    ),
    "topic deleted": lambda rig: rig.broker.parts.tables.topics.delete("orders"),
    "group disabled": lambda rig: rig.broker.parts.tables.groups.update(
        GroupConfig(group_name="readers", consume_enable=False)
    ),
    "group deleted": lambda rig: rig.broker.parts.tables.groups.delete("readers"),
    "group must not read it": lambda rig: rig.broker.parts.tables.groups.allow_read("readers", "orders", False),
    "heartbeat": lambda rig: rig.arrive(2, heartbeat_frame(1, {"orders": "TagB"})),
    "settings": lambda rig: rig.broker.tenure.renew_plan(),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_any_change_of_topics_groups_subscriptions_or_settings_empties_it(name: str) -> None:
    async with LaneRig(with_core=True) as rig:
        await learned(rig)
        assert taken(rig, pull_frame(1)) > 0
        CHANGES[name](rig)
        assert taken(rig, pull_frame(1)) == 0
        assert rig.pulls.lane.known == 0


async def test_a_heartbeat_that_says_nothing_new_leaves_it_as_it_is() -> None:
    async with LaneRig(with_core=True) as rig:
        rig.arrive(2, heartbeat_frame(1, {"orders": "TagA"}))
        await learned(rig)
        rig.arrive(2, heartbeat_frame(2, {"orders": "TagA"}))
        assert taken(rig, pull_frame(1)) > 0


@pytest.mark.parametrize("change", ["expression", "topics", "model", "gone"])
async def test_a_subscription_that_changed_is_pythons(change: str) -> None:
    by_heartbeat = {"sysFlag": "0", "subscription": None, "expressionType": None}
    async with LaneRig(with_core=True) as rig:
        rig.arrive(2, heartbeat_frame(1, {"orders": "TagA"}))
        await learned(rig, ext=by_heartbeat)
        assert taken(rig, pull_frame(3, ext=by_heartbeat)) > 0
        match change:
            case "expression":
                rig.arrive(2, heartbeat_frame(2, {"orders": "TagB"}, version=1))
            case "topics":
                rig.arrive(2, heartbeat_frame(2, {"payments": "TagA"}))
            case "model":
                rig.arrive(2, heartbeat_frame(2, {"orders": "TagA"}, model="BROADCASTING"))
            case _:
                rig.broker.dispatcher.on_disconnected(rig.clients[2].connection, "gone")
        assert taken(rig, pull_frame(4, ext=by_heartbeat)) == 0


async def test_a_pending_reset_is_pythons() -> None:
    async with LaneRig(with_core=True) as rig:
        await learned(rig)
        rig.broker.parts.tables.progress.reset("readers", "orders", 1, 7)
        rig.arrive(1, pull_frame(9, 0))
        command, _ = answers(rig.clients[1])[-1]
        assert command.code == ResponseCode.PULL_OFFSET_MOVED
        assert command.ext["nextBeginOffset"] == "7"
        rig.broker.parts.tables.progress.reset("another group", "orders", 1, 7)
        assert taken(rig, pull_frame(10)) > 0, "that of another group makes no difference"


async def test_offsets_are_committed_and_one_beyond_the_end_is_not_believed() -> None:
    commits = {"sysFlag": str(SUBSCRIPTION | COMMIT)}
    async with LaneRig(with_core=True) as rig:
        await learned(rig)
        progress = rig.broker.parts.tables.progress
        for offset, expected in ((5, 5), (41, 5), (-1, 5), (40, 40)):
            assert taken(rig, pull_frame(1, ext=commits | {"commitOffset": str(offset)})) > 0
            assert progress.committed("readers", "orders", 1) == expected
        progress.offsets_max = progress._room = 0
        await learned_by_others(rig)
        assert taken(rig, pull_frame(1, ext=commits | {"consumerGroup": "others", "commitOffset": "3"})) > 0
        assert progress.committed("others", "orders", 1) is None, "there is no room for another one"


async def learned_by_others(rig: LaneRig) -> None:
    rig.arrive(1, pull_frame(100, ext={"consumerGroup": "others"}))
    rig.arrive(1, pull_frame(100))
    await rig.settle()


async def test_what_is_not_on_disk_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    async with LaneRig(with_core=True, flush=Flush.SYNC) as rig:
        await learned(rig)
        store, lane = rig.broker.store, rig.pulls.lane
        store.append([])
        monkeypatch.setattr(DiskStage, "_flush", lambda self: None)
        rig.arrive(0, sends(50, 3))
        rig.broker.parts.write_path.group_commit.commit_now()
        assert store.end_position > store.flushed_position
        store.write_entries()
        assert taken(rig, pull_frame(3, 40)) == 0, "these three"
        rig.clients[1].connection.flush()
        before = len(answers(rig.clients[1]))
        assert taken(rig, pull_frame(3, 20)) > 0
        rig.clients[1].connection.flush()
        command, _ = answers(rig.clients[1])[before]
        assert (command.ext["maxOffset"], command.ext["nextBeginOffset"]) == ("40", "40")
        assert lane.known == 1
        monkeypatch.undo()


async def test_what_recovery_has_not_verified_is_pythons() -> None:
    async with LaneRig(with_core=True) as rig:
        await learned(rig)
        rig.broker.store.log.trusted_from = rig.broker.store.end_position
        assert taken(rig, pull_frame(3)) == 0


async def test_requests_that_wait_are_not_overtaken() -> None:
    async with LaneRig(with_core=True) as rig:
        await learned(rig)
        rig.pulls.lane.waiting = {rig.clients[1].connection}
        assert taken(rig, pull_frame(3)) == 0


async def test_where_reads_are_charged_it_is_closed() -> None:
    async with LaneRig(with_core=True) as rig:
        await learned(rig)
        rig.pulls.charge = lambda *arguments: None  # as a quota does it
        rig.broker.tenure.renew_plan()
        assert not rig.pulls.lane.is_open


async def test_a_broker_that_stops_refuses_what_the_lane_knew() -> None:
    async with LaneRig(with_core=True) as rig:
        await learned(rig)
        await rig.broker.tenure.finish()
        assert taken(rig, pull_frame(3)) == 0


async def test_kinds_beyond_the_limit_are_learned_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pull_lane, "KNOWN_MAX", 3)
    async with LaneRig(with_core=True) as rig:
        await learned(rig)
        for number in range(10):
            rig.arrive(1, pull_frame(number, ext={"subVersion": str(number)}))
            assert 1 <= rig.pulls.lane.known <= 3


async def test_a_defect_of_the_lane_ends_one_connection() -> None:
    async with LaneRig(with_core=True) as rig:
        await learned(rig)
        rig.pulls.lane._lane = None
        rig.arrive(1, pull_frame(3))
        assert not rig.clients[1].connection.is_open
        assert rig.clients[2].connection.is_open


async def test_a_queue_file_that_cannot_be_read_is_told_by_python() -> None:
    async with LaneRig(with_core=True) as rig:
        await learned(rig)
        queue = rig.broker.store.queues["orders", 1]

        def fail(offset: int, count: int) -> bytes:
            raise OSError(5, "simulated")

        queue.entry_bytes = fail  # type: ignore[method-assign]
        before = len(answers(rig.clients[1]))
        rig.arrive(1, pull_frame(3))
        assert [command.code for command, _ in answers(rig.clients[1])[before:]] == [ResponseCode.SYSTEM_ERROR]
        assert rig.clients[1].connection.is_open


# --- one truth ---


def random_pull(rng: Random, number: int) -> bytes:
    """Mostly of a few kinds, so that the lane knows many of them."""
    if rng.random() < 0.8:
        kind = rng.choice(({}, {}, {"sysFlag": "6"}, {"subscription": "TagA"}, {"sysFlag": "0"}))
        ext = {"queueId": str(rng.randrange(2)), "maxMsgNums": str(rng.choice((1, 5, 32))), **kind}
        ext |= {"commitOffset": str(rng.choice((0, 1, 5, 1000)))}
        if ext.get("sysFlag") != "0" and rng.random() < 0.3:
            ext["sysFlag"] = "5"
        return pull_frame(number, rng.choice((0, 1, 3, 5, 10, 25, 29, 30)), ext=ext)
    flags = rng.choice((4, 4, 4, 5, 5, 6, 7, 0, 1, 2))
    ext: dict[str, Any] = {
        "consumerGroup": rng.choice(("readers", "readers", "readers", "others")),
        "topic": rng.choice(("orders", "orders", "orders", "payments", "made-later")),
        "queueId": str(rng.choice((0, 1, 2, 3) if rng.random() < 0.97 else (-1, 4, 9))),
        "queueOffset": str(rng.choice((0, 0, 1, 3, 5, 10, 30, 64, 100, -1))),
        "maxMsgNums": str(rng.choice((1, 5, 32, 32, 32, 100, 0, -3))),
        "sysFlag": str(flags),
        "commitOffset": str(rng.choice((0, 1, 5, 40, 1000, -1))),
        "suspendTimeoutMillis": str(rng.choice((0, 500, 15_000))),
        "subscription": rng.choice(("*", "*", "*", "TagA", "TagA || übung", "nothing", "", None)),
        "subVersion": rng.choice(("0", "0", "0", "1")),
        "expressionType": rng.choice(("TAG", "TAG", "TAG", None, "SQL92", "odd")),
    }
    if rng.random() < 0.2:
        ext["maxMsgBytes"] = str(rng.choice((1, 600, 2000, 30_000, 0, -1)))
    odd: dict[str, Any] = {}
    if rng.random() < 0.15:
        odd = rng.choice(
            (
                {"flag": 2},
                {"code": 361},
                {"opaque": -number},
                {"version": 7},
                {"remark": "x"},
                {"language": 12},
                {"ext": {"queueOffset": "01"}},
                {"ext": {"queueOffset": "1e1"}},
                {"ext": {"queueId": 1}},
                {"ext": {"topic": None}},
                {"ext": {"topic": "ord\ters"}},
                {"ext": {"commitOffset": str(1 << 62)}},
                {"ext": {"maxMsgNums": str(1 << 31)}},
                {"ext": {"requestSource": "1", "bname": 'b"', "ns": "ä"}},
                {"ext": {"requestSource": "x"}},
                {"unknown": {"a": [1]}},
            )
        )
    frame = pull_frame(number, **{**odd, "ext": ext | odd.get("ext", {})})
    if rng.random() < 0.05:
        at = rng.randrange(8, len(frame))
        frame = frame[:at] + rng.randbytes(1) + frame[at + 1 :]
    return frame


def random_request(rng: Random, number: int) -> bytes:
    kind = rng.random()
    if kind < 0.86:
        return random_pull(rng, number)
    if kind < 0.98:
        return random_frame(rng, number, 0.05)
    if kind < 0.995:
        wanted = rng.choice(({"orders": "*"}, {"orders": "TagA", "payments": "*"}, {"payments": "TagB"}))
        return heartbeat_frame(number, wanted, rng.randrange(3), rng.choice(("CLUSTERING", "BROADCASTING")))
    group = {"groupName": "readers", "consumeEnable": rng.random() < 0.7, "consumeBroadcastEnable": rng.random() < 0.7}
    return encode_request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, number, body=json.dumps(group).encode())


async def outcome_of(seed: int, flush: Flush, *, with_core: bool) -> tuple[dict[str, Any], int]:
    """Everything that came of it, and how many pulls the lane answered."""
    rng, streams, number, answered = Random(seed), dict.fromkeys(range(3), b""), 1, 0
    async with LaneRig(with_core, flush, seed) as rig:
        if with_core:
            lane_take = rig.pulls.lane.take

            def take(connection: Any, data: Any) -> int:
                nonlocal answered
                before = connection.frames_in
                consumed: int = lane_take(connection, data)
                answered += connection.frames_in - before
                return consumed

            rig.pulls.lane.take = take
            rig.clients = [type(each)(rig.broker, rig.clock, count) for count, each in enumerate(rig.clients)]
        for step in range(_STEPS):
            rig.clock.advance_ms(rng.choice((0, 0, 1, 700)))
            if rng.random() < 0.05:
                where = ("readers", "orders", rng.randrange(4), rng.randrange(10))
                rig.broker.parts.tables.progress.reset(*where)
            if step % 12 == 11:
                rig.broker.parts.tables.groups.update(GroupConfig(group_name="readers"))  # it may read again
            if step == 5:
                for queue in range(4):
                    text = "UNIQ_KEY\x017F0000010000000000000000\x02TAGS\x01TagA\x02"
                    rig.arrive(0, b"".join(send_frame(each, "orders", queue, text, b"x" * 200) for each in range(30)))
            for peer in rng.sample(range(3), rng.choice((1, 1, 2, 3))):
                for _ in range(rng.choice((1, 2, 10))):
                    streams[peer] += random_request(rng, number)
                    number += 1
                stream = streams[peer]
                cut = len(stream) if rng.random() < 0.85 else rng.randrange(len(stream) + 1)  # reads end anywhere
                read, streams[peer] = stream[:cut], stream[cut:]
                for at in range(0, len(read), 200_000):
                    rig.arrive(peer, read[at : at + 200_000])
            await rig.settle()
            rig.pulls.respond_due()
        return rig.outcome(), answered


@pytest.mark.parametrize("flush", Flush)
@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(_SEEDS))
async def test_the_same_pulls_are_answered_the_same(seed: int, flush: Flush, monkeypatch: pytest.MonkeyPatch) -> None:
    print(f"seed {seed}")
    with monkeypatch.context() as patch:
        without_core(patch)
        expected, _ = await outcome_of(seed, flush, with_core=False)
    found, answered = await outcome_of(seed, flush, with_core=True)
    compare(found, expected)
    assert answered > 10, "the lane has answered"


async def test_a_long_subscription_is_answered_and_not_kept() -> None:
    """Who may pull could fill the memory with kinds of pulls."""
    async with LaneRig(with_core=True) as rig:
        rig.arrive(0, sends(1, 5))
        await rig.settle()
        rig.arrive(1, pull_frame(2, ext={"subscription": "*" + " " * 5_000}))
        await rig.settle()
        assert answers(rig.clients[1])[0][0].code == ResponseCode.SUCCESS and rig.pulls.lane.known == 0
