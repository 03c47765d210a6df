"""Rounds of checks: which producer is asked, how often, and what happens when none answers."""

from __future__ import annotations

from typing import Any

import pytest

from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.transactions.transaction_checks import CheckVerdict, verdict
from pyromq.model.names import HALF_TOPIC
from pyromq.model.system_names import DISCARD_TOPIC
from pyromq.store.settings import StoreSettings
from pyromq.wire.codes import ResponseCode
from pyromq.wire.message_id import decode_offset_id
from pyromq.wire.prepared import PreparedMessage, unresolved
from pyromq.wire.properties import decode_properties
from pyromq.wire.record import decode_record
from tests.crash.script import retain
from tests.unit.broker.transactions.transaction_rig import BORN_MS, COMMIT, ROLLBACK, Rig

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


def prepared(**changes: Any) -> PreparedMessage:
    fields: dict[str, Any] = {
        **{"offset": 7, "position": 700, "topic": "orders", "queue_id": 1, "group": "payers", "unique_key": "U"},
        **{"arrived_ms": NOW_MS, "checks": 0, "immunity_ms": None, "is_copy": False},
    }
    return PreparedMessage(**fields | changes)


@pytest.mark.parametrize(
    ("age_ms", "checks", "changes", "expected"),
    [
        (0, 0, {}, CheckVerdict.LATER),
        (6_000, 0, {}, CheckVerdict.LATER),
        (6_001, 0, {}, CheckVerdict.ASK),
        (-1, 0, {}, CheckVerdict.ASK),  # the clock was set back
        (30_000, 14, {}, CheckVerdict.ASK),
        (30_000, 15, {}, CheckVerdict.PUT_AWAY),
        (72 * HOUR_MS, 0, {}, CheckVerdict.ASK),
        (72 * HOUR_MS + 1, 0, {}, CheckVerdict.PUT_AWAY),
        (60_000, 0, {"immunity_ms": 60_000}, CheckVerdict.LATER),
        (60_001, 0, {"immunity_ms": 60_000}, CheckVerdict.ASK),
        (1, 0, {"immunity_ms": 0}, CheckVerdict.ASK),
        (7_000, 0, {"group": ""}, CheckVerdict.PUT_AWAY),
        (7_000, 0, {"topic": ""}, CheckVerdict.PUT_AWAY),
        (1_000, 0, {"group": ""}, CheckVerdict.LATER),
    ],
)
def test_verdicts(age_ms: int, checks: int, changes: dict[str, Any], expected: CheckVerdict) -> None:
    assert verdict(prepared(**changes), checks=checks, now_ms=NOW_MS + age_ms, settings=BrokerSettings()) is expected


async def test_a_producer_is_asked_with_the_message_as_it_will_be() -> None:
    rig = Rig()
    placed, producer = await rig.prepared("U1", "TAGS\x01a\x02"), rig.connect("p1")
    await rig.round(6_001)
    ((header, body),) = producer.questions
    assert (header.topic, header.tran_state_table_offset, header.commit_log_offset) == (HALF_TOPIC, 0, placed.position)
    assert (header.msg_id, header.transaction_id, header.broker_name) == ("U1", "U1", "broker-a")
    assert decode_offset_id(header.offset_msg_id or "")[1] == placed.position
    message = decode_record(body)
    assert (message.topic, message.queue_id, message.body, message.born_ms) == (b"orders", 1, b"body of U1", BORN_MS)
    properties = decode_properties(message.properties)
    assert (properties["PGROUP"], properties["TRAN_MSG"], properties["TAGS"]) == ("payers", "true", "a")
    assert (message.offset, message.position) == (placed.offset, placed.position)


async def test_rounds_come_every_interval_and_settings_may_change() -> None:
    rig = Rig()
    await rig.round()
    producer = rig.connect("p1")
    await rig.prepared("U1")
    await rig.round(29_999)
    assert len(producer.questions) == 0
    await rig.round(1)
    assert len(producer.questions) == 1
    rig.settings.transaction_check_interval_ms = 1_000
    for number in range(2, 5):
        await rig.round(1_000)
        assert len(producer.questions) == number
    rig.settings.transaction_checks_max = 4
    await rig.round(1_000)
    assert (len(producer.questions), rig.bodies(DISCARD_TOPIC, 0)) == (4, ["body of U1"])


async def test_after_fifteen_checks_it_is_put_away_and_stays_readable() -> None:
    rig = Rig()
    placed, producer = await rig.prepared("U1"), rig.connect("p1")
    assert rig.topics.get(DISCARD_TOPIC) is None
    for _ in range(16):
        await rig.round()
    assert len(producer.questions) == 15
    (away,) = rig.records(DISCARD_TOPIC)
    assert (away.body, decode_properties(away.properties)["REAL_TOPIC"]) == (b"body of U1", "orders")
    assert (rig.op_bodies, rig.log.is_waiting(0), rig.bodies()) == (["0,"], False, [])
    config = rig.topics.require(DISCARD_TOPIC)
    assert (config.read_queue_nums, config.perm) == (1, 6)
    await rig.round()
    assert (len(producer.questions), rig.committed) == (15, (1, 1))
    assert await rig.end(placed) == ResponseCode.ILLEGAL_OPERATION


async def test_rounds_without_a_producer_do_not_count() -> None:
    rig = Rig()
    await rig.prepared("U1")
    for _ in range(100):
        await rig.round()
    assert rig.records(DISCARD_TOPIC) == []
    rig.connect("stranger", "others")
    lost, slow = rig.connect("p1", lost=True), rig.connect("p2", congested=True)
    for _ in range(20):
        await rig.round()
    assert (lost.questions, slow.questions, rig.records(DISCARD_TOPIC)) == ([], [], [])
    producer = rig.connect("p3")
    for _ in range(15):
        await rig.round()
    assert len(producer.questions) == 15, "those who cannot be asked are passed over"


async def test_without_a_producer_it_is_put_away_when_files_expire() -> None:
    rig = Rig()
    await rig.prepared("U1")
    await rig.round(rig.settings.store.keep_ms)
    assert rig.records(DISCARD_TOPIC) == []
    await rig.round()
    assert rig.bodies(DISCARD_TOPIC, 0) == ["body of U1"]


async def test_producers_of_a_group_are_asked_one_after_the_other() -> None:
    rig = Rig()
    producers = [rig.connect(f"p{number}") for number in range(3)]
    for number in range(9):
        await rig.prepared(f"U{number}")
    await rig.round()
    assert [len(each.questions) for each in producers] == [3, 3, 3]


async def test_no_producer_is_asked_about_what_is_decided_or_being_decided() -> None:
    rig, producer = Rig(), None
    prepared = [await rig.prepared(f"U{number}") for number in range(4)]
    producer = rig.connect("p1")
    await rig.end(prepared[0])
    await rig.end(prepared[2], ROLLBACK)
    await rig.round()
    assert [header.msg_id for header, _ in producer.questions] == ["U1", "U3"]


async def test_a_round_looks_at_few_at_a_time() -> None:
    rig = Rig()
    producer = rig.connect("p1")
    for number in range(250):
        rig.stage_prepared(f"U{number}")
    await rig.settled()
    rig.clock.advance_ms(30_000)
    seen = []
    for _ in range(4):
        rig.checks.tick()
        seen.append(len(producer.questions))
    assert seen == [100, 200, 250, 250]


async def test_a_round_reads_few_bytes_at_a_time() -> None:
    rig = Rig(store=StoreSettings(segment_bytes=8 << 20))
    producer = rig.connect("p1")
    for number in range(5):
        await rig.prepared(f"U{number}", body="x" * 600_000)
    rig.clock.advance_ms(30_000)
    seen = []
    for _ in range(3):
        rig.checks.tick()
        seen.append(len(producer.questions))
    assert seen == [2, 4, 5]


async def test_one_that_cannot_be_written_again_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(span_max=100, store=StoreSettings(segment_bytes=1 << 20))
    rig.connect("p1")
    await rig.prepared("LONG", f"filler\x01{'x' * 32_580}\x02")
    await rig.prepared("SHORT")
    for number in range(120):
        await rig.end(await rig.prepared(f"U{number}"))
    await rig.round()
    assert "cannot be checked: offset=0 key=LONG" in caplog.text
    assert [decode_properties(each.properties)["UNIQ_KEY"] for each in rig.records(HALF_TOPIC)[122:]] == ["SHORT"]
    assert rig.log.is_waiting(0)


async def test_a_response_to_a_check_ends_it() -> None:
    rig = Rig()
    await rig.prepared("U1")
    producer = rig.connect("p1")
    await rig.round()
    header, _ = producer.questions[0]
    placed = await rig.prepared("U2")
    decision = {"tran_state_table_offset": 0, "commit_log_offset": header.commit_log_offset}
    assert await rig.end(placed, COMMIT, from_transaction_check=True, **decision) == ResponseCode.SUCCESS
    assert rig.bodies() == ["body of U1"]


async def test_after_a_restart_those_that_wait_are_asked_about_again() -> None:
    rig = Rig()
    prepared = [await rig.prepared(f"U{number}") for number in range(3)]
    await rig.end(prepared[1])
    rig = await rig.reopen()
    producer = rig.connect("p1")
    await rig.round()
    assert [header.msg_id for header, _ in producer.questions] == ["U0", "U2"]


async def test_checks_that_another_broker_made_count() -> None:
    rig = Rig(store=StoreSettings(keep_ms=1 << 60, segment_bytes=1 << 14))  # the producer's clock is years behind
    await rig.prepared("U1", "TRANSACTION_CHECK_TIMES\x0113\x02")
    producer = rig.connect("p1")
    for _ in range(4):
        await rig.round()
    assert len(producer.questions) == 2
    assert rig.bodies(DISCARD_TOPIC, 0) == ["body of U1"]


async def test_few_that_wait_do_not_keep_many_from_being_forgotten() -> None:
    rig = Rig(span_max=100)
    await rig.round()
    producer, old = rig.connect("p1"), await rig.prepared("OLD", "CHECK_IMMUNITY_TIME_IN_SECONDS\x01100000\x02")
    for number in range(120):
        await rig.end(await rig.prepared(f"U{number}"))
    assert rig.log.table.end - rig.log.table.first > 100
    await rig.round()
    await rig.round(0)
    assert (rig.log.table.first, rig.committed, rig.log.is_waiting(121)) == (121, (121, 121), True)
    copy = rig.records(HALF_TOPIC)[-1]
    properties = decode_properties(copy.properties)
    assert (copy.offset, properties["TRAN_PREPARED_QUEUE_OFFSET"], copy.body) == (121, "0", b"body of OLD")
    assert rig.op_bodies[-1] == "0,", "Apache RocketMQ must not ask about the old one any more"
    assert producer.questions == []
    rig = await rig.reopen()
    assert await rig.end(old, from_transaction_check=True) == ResponseCode.SYSTEM_BUSY, "it may wait somewhere else"
    rig.checks.tick()
    assert await rig.end(old, from_transaction_check=True) == ResponseCode.SUCCESS
    assert (rig.bodies()[-1], rig.op_bodies[-1]) == ("body of OLD", "121,")
    assert await rig.end(old, from_transaction_check=True) == ResponseCode.SUCCESS
    assert len(rig.bodies()) == 121


async def test_the_count_of_checks_moves_with_the_message() -> None:
    rig = Rig(span_max=100)
    producer, _ = rig.connect("p1"), await rig.prepared("OLD")
    await rig.round()
    await rig.round()
    assert len(producer.questions) == 2
    for number in range(120):
        await rig.end(await rig.prepared(f"U{number}"))
    for _ in range(20):
        await rig.round()
    assert decode_properties(rig.records(HALF_TOPIC)[-1].properties)["TRANSACTION_CHECK_TIMES"] == "3"
    assert (len(producer.questions), rig.bodies(DISCARD_TOPIC, 0)) == (15, ["body of OLD"])


async def test_many_that_wait_are_not_written_again_and_again() -> None:
    rig = Rig(span_max=20)
    for number in range(60):
        await rig.prepared(f"U{number}")
    end = rig.store.end_position
    for _ in range(3):
        await rig.round()
    assert rig.store.end_position == end


async def test_a_prepared_message_whose_file_is_gone_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    await rig.prepared("U0")
    while rig.store.end_position < 3 << 14:
        await rig.prepared("U" * 1000)
    retain(rig.store, 1)
    await rig.round()
    assert "prepared message lost" in caplog.text
    assert not rig.log.is_waiting(0)


async def test_a_full_disk_stops_the_round_and_the_next_one_goes_on() -> None:
    rig = Rig(transaction_checks_max=0)
    for number in range(3):
        await rig.prepared(f"U{number}")
    rig.topics.create(DISCARD_TOPIC, queues=1)
    rig.store.health.disk_full("simulated")
    await rig.round()
    assert rig.records(DISCARD_TOPIC) == []
    rig.store.health.space_returned()
    await rig.round()
    assert len(rig.records(DISCARD_TOPIC)) == 3


async def test_operators_see_what_waits() -> None:
    rig = Rig()
    prepared = [await rig.prepared(f"U{number}") for number in range(4)]
    for number in (0, 2):
        await rig.end(prepared[number])
    found = unresolved(rig.records(HALF_TOPIC), rig.records("RMQ_SYS_TRANS_OP_HALF_TOPIC"))
    assert [(each.offset, each.unique_key, each.topic, each.group) for each in found] == [
        (1, "U1", "orders", "payers"),
        (3, "U3", "orders", "payers"),
    ]
