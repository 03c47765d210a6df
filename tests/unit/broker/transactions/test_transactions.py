"""Prepared messages and what their producers say about them."""

from __future__ import annotations

import pytest

from pyromq.broker.base.refusals import RefusedError
from pyromq.model.names import HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from pyromq.model.system_names import DISCARD_TOPIC
from pyromq.store.settings import Flush, StoreSettings
from pyromq.wire.codes import ResponseCode
from pyromq.wire.properties import decode_properties
from pyromq.wire.record import Draft
from tests.unit.broker.builders import Wire
from tests.unit.broker.transactions.transaction_rig import BORN_MS, COMMIT, ROLLBACK, Rig

REFUSED, GONE = ResponseCode.SYSTEM_ERROR, ResponseCode.ILLEGAL_OPERATION


async def test_a_prepared_message_remembers_where_it_belongs_and_is_not_visible() -> None:
    rig = Rig()
    await rig.prepared("U1", "TAGS\x01a\x02")
    (prepared,) = rig.records(HALF_TOPIC)
    properties = decode_properties(prepared.properties)
    assert (properties["REAL_TOPIC"], properties["REAL_QID"], properties["__transactionId__"]) == ("orders", "1", "U1")
    assert (properties["TRAN_MSG"], properties["PGROUP"], properties["TAGS"]) == ("true", "payers", "a")
    assert (prepared.queue_id, prepared.sys_flag, rig.bodies()) == (0, 0, [])


@pytest.mark.parametrize("flush", Flush)
async def test_a_commit_makes_the_message_visible_and_ends_the_prepared_one(flush: Flush) -> None:
    rig = Rig(flush=flush)
    prepared = await rig.prepared("U1", "TAGS\x01a\x02KEYS\x01k1\x02")
    assert await rig.end(prepared) == ResponseCode.SUCCESS
    (final,) = rig.records("orders", 1)
    assert (final.body, final.sys_flag & 12, final.prepared_position) == (b"body of U1", COMMIT, prepared.position)
    properties = decode_properties(final.properties)
    assert (final.born_ms, properties.pop("__CRC32#") != "") == (BORN_MS, True)
    known = {
        "KEYS": "k1",
        "TAGS": "a",
        "UNIQ_KEY": "U1",
        "__transactionId__": "U1",
        "PGROUP": "payers",
        "TRAN_MSG": "true",
    }
    assert properties == known, "what Apache RocketMQ 5.5 leaves of them"
    (op,) = rig.records(OP_HALF_TOPIC)
    assert (op.body, decode_properties(op.properties)["TAGS"]) == (b"0,", "d")
    assert op.position > final.position, "a log that is cut between them must not say that it is over"
    assert ("orders", 1) in rig.woken
    assert rig.counters.put_messages == 1


async def test_a_rollback_leaves_nothing_but_the_op() -> None:
    rig = Rig()
    assert await rig.end(await rig.prepared("U1"), ROLLBACK) == ResponseCode.SUCCESS
    assert (rig.bodies(), rig.op_bodies) == ([], ["0,"])


async def test_transactions_that_end_in_one_group_commit_share_an_op_record() -> None:
    rig, wire = Rig(), Wire()
    prepared = [await rig.prepared(f"U{number}") for number in range(5)]
    for each in prepared:
        rig.stage_end(each, COMMIT if each.offset % 2 else ROLLBACK, wire)
    assert wire.codes == [], "no request is answered before it is safe"
    await rig.settled()
    assert (wire.codes, rig.op_bodies) == ([0] * 5, ["0,1,2,3,4,"])
    assert rig.bodies() == ["body of U1", "body of U3"]


async def test_many_offsets_become_several_op_records() -> None:
    rig, wire = Rig(), Wire()
    prepared = [rig.stage_prepared(f"U{number}") for number in range(450)]
    await rig.settled()
    for each in prepared:
        rig.stage_end(each, ROLLBACK, wire)
    await rig.settled()
    assert [body.count(",") for body in rig.op_bodies] == [200, 200, 50]
    assert ",".join(map(str, range(200))) + "," == rig.op_bodies[0]
    again = await rig.reopen()
    assert again.log.table.waiting == 0


@pytest.mark.parametrize("ending", [COMMIT, ROLLBACK])
async def test_ending_twice_does_nothing_more(ending: int) -> None:
    rig = Rig()
    await rig.round()
    prepared, wire = await rig.prepared("U1"), Wire()
    rig.stage_end(prepared, ending, wire)
    rig.stage_end(prepared, ending, wire)
    await rig.settled()
    assert wire.codes == [0, 0]
    other = COMMIT + ROLLBACK - ending
    assert [await rig.end(prepared, ending), await rig.end(prepared, other)] == [ResponseCode.SUCCESS, GONE]
    rig = await rig.reopen()
    await rig.round()
    assert [await rig.end(prepared, ending), await rig.end(prepared, other)] == [ResponseCode.SUCCESS, GONE]
    assert (len(rig.bodies()), rig.op_bodies) == (1 if ending == COMMIT else 0, ["0,"])


async def test_the_second_opinion_within_one_group_commit_is_refused() -> None:
    rig, wire = Rig(), Wire()
    prepared = await rig.prepared("U1")
    rig.stage_end(prepared, ROLLBACK, wire)
    with pytest.raises(RefusedError, match="not ended with COMMIT"):
        rig.stage_end(prepared, COMMIT, wire)


async def test_a_broker_that_just_started_does_not_guess_about_ended_transactions() -> None:
    rig = Rig()
    prepared = await rig.prepared("U1")
    assert await rig.end(prepared) == ResponseCode.SUCCESS
    rig = await rig.reopen()
    assert await rig.end(prepared) == ResponseCode.SYSTEM_BUSY
    await rig.round()
    assert await rig.end(prepared) == ResponseCode.SUCCESS


async def test_only_the_group_that_began_a_transaction_may_end_it() -> None:
    rig = Rig()
    prepared = await rig.prepared("U1")
    rig.store.append([Draft(topic="orders", queue_id=1, body=b"plain", properties=b"PGROUP\x01payers\x02")])
    rig.store.flush()
    assert await rig.end(prepared, producer_group="others") == REFUSED
    assert await rig.end(prepared, tran_state_table_offset=7) == REFUSED
    assert await rig.end(prepared, commit_log_offset=prepared.position + 1) == REFUSED
    assert await rig.end(prepared, commit_log_offset=1 << 40) == REFUSED
    assert await rig.end(prepared, commit_log_offset=-1) == REFUSED
    (plain,) = rig.records("orders", 1)
    assert await rig.end(prepared, commit_log_offset=plain.position, tran_state_table_offset=0) == REFUSED
    assert (rig.op_bodies, rig.log.is_waiting(0)) == ([], True)


@pytest.mark.parametrize("unknown", [0, 4, 5])
async def test_a_producer_that_does_not_know_is_answered_and_the_transaction_goes_on(unknown: int) -> None:
    rig = Rig()
    assert await rig.end(await rig.prepared("U1"), unknown) == 0
    assert rig.log.is_waiting(0)


async def test_a_one_way_end_is_not_answered() -> None:
    rig = Rig()
    assert await rig.end(await rig.prepared("U1"), oneway=True) == -1
    assert rig.bodies() == ["body of U1"]


async def test_a_transaction_older_than_its_patience_is_decided_by_a_check() -> None:
    rig = Rig()
    prepared = await rig.prepared("U1", "CHECK_IMMUNITY_TIME_IN_SECONDS\x0160\x02")
    rig.clock.set_ms(BORN_MS + 60_001)
    assert await rig.end(prepared, producer_group="others") == GONE, "before anything else is looked at"
    assert await rig.end(prepared) == GONE
    assert await rig.end(prepared, from_transaction_check=True) == ResponseCode.SUCCESS
    later = await rig.prepared("U2", "CHECK_IMMUNITY_TIME_IN_SECONDS\x0160\x02")
    rig.clock.set_ms(BORN_MS + 60_000)
    assert await rig.end(later) == ResponseCode.SUCCESS


async def test_a_replica_sends_producers_to_its_leader() -> None:
    rig = Rig(broker_id=1)
    assert await rig.end(await rig.prepared("U1")) == ResponseCode.SLAVE_NOT_AVAILABLE


async def test_a_broker_may_refuse_transactions() -> None:
    rig = Rig(transactions=False)
    with pytest.raises(RefusedError) as refused:
        rig.stage_prepared("U1")
    assert refused.value.code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize(
    ("text", "place"),
    [("DELAY\x013\x02", (SCHEDULE_TOPIC, 2)), ("TIMER_DELAY_SEC\x0160\x02", (TIMER_TOPIC, 0))],
)
async def test_a_delay_begins_with_the_commit(text: str, place: tuple[str, int]) -> None:
    rig = Rig()
    await rig.round()
    prepared = await rig.prepared("U1", text)
    assert rig.records(*place) == []
    rig.clock.advance_ms(5_000)
    assert await rig.end(prepared) == ResponseCode.SUCCESS
    (waiting,) = rig.records(*place)
    properties = decode_properties(waiting.properties)
    assert (properties["REAL_TOPIC"], properties["REAL_QID"], rig.bodies()) == ("orders", "1", [])
    if place[0] == TIMER_TOPIC:
        assert int(properties["TIMER_OUT_MS"]) == rig.clock.now_ms() + 60_000
    assert await rig.end(prepared) == ResponseCode.SUCCESS, "it is known that it was committed, though it waits"
    assert len(rig.records(*place)) == 1


async def test_a_delay_that_cannot_be_kept_is_refused_at_once() -> None:
    with pytest.raises(RefusedError, match="not a whole number"):
        Rig().stage_prepared("U1", "TIMER_DELAY_SEC\x01soon\x02")


async def test_a_commit_for_a_topic_that_is_gone_waits_for_it() -> None:
    rig = Rig()
    prepared = await rig.prepared("U1")
    rig.topics.delete("orders")
    assert await rig.end(prepared) == ResponseCode.TOPIC_NOT_EXIST
    rig.topics.create("orders", queues=4)
    assert await rig.end(prepared) == ResponseCode.SUCCESS


async def test_a_commit_that_the_disk_refuses_did_not_happen() -> None:
    rig, wire = Rig(), Wire()
    prepared = await rig.prepared("U1")
    assert rig.bodies(HALF_TOPIC, 0) == ["body of U1"], "its entry is written when it is read"
    rig.disk.fail_at(rig.disk.operations + 1, 28)
    rig.stage_end(prepared, COMMIT, wire)
    assert not rig.log.is_waiting(0)
    await rig.settled()
    assert (wire.codes, rig.log.is_waiting(0)) == ([ResponseCode.SERVICE_NOT_AVAILABLE], True)
    rig.store.health.space_returned()
    assert await rig.end(prepared) == ResponseCode.SUCCESS
    assert (rig.bodies(), rig.op_bodies) == (["body of U1"], ["0,"])


async def test_progress_follows_the_oldest_that_waits_and_is_kept() -> None:
    rig = Rig()
    prepared = [await rig.prepared(f"U{number}") for number in range(4)]
    for number in (1, 0, 3):
        await rig.end(prepared[number])
    await rig.round(0)
    assert rig.committed == (2, 2), "the op of 3 is needed as long as 2 waits"
    rig = await rig.reopen()
    assert [rig.log.is_waiting(offset) for offset in range(4)] == [False, False, True, False]
    await rig.end(prepared[2], ROLLBACK)
    await rig.round(0)
    assert rig.committed == (4, 4)


async def test_progress_waits_for_the_disk() -> None:
    rig = Rig(flush=Flush.ASYNC)
    await rig.end(await rig.prepared("U1"))
    await rig.round(0)
    assert rig.committed[0] is None, "a crash could take back the op record, and then the prepared message still waits"
    rig.store.flush()
    await rig.round(0)
    assert rig.committed == (1, 1)


async def test_op_records_of_old_and_new_brokers_are_understood() -> None:
    rig = Rig()
    for number in range(6):
        await rig.prepared(f"U{number}")
    tag = b"TAGS\x01d\x02"
    for body, properties in ((b"0", tag), (b"2,3,", tag), (b"4,", b""), (b",x,77777777777,", tag)):
        rig.store.append([Draft(topic=OP_HALF_TOPIC, queue_id=0, body=body, properties=properties)])
    rig.store.flush()
    rig = await rig.reopen()
    assert [rig.log.is_waiting(offset) for offset in range(6)] == [False, True, False, False, True, True]
    assert rig.log.table.end == 6


async def test_a_prepared_message_that_was_put_away_waits_again() -> None:
    rig = Rig(transaction_checks_max=0)
    prepared = await rig.prepared("U1", "TRANSACTION_CHECK_TIMES\x0115\x02")
    await rig.round()
    (away,) = rig.records(DISCARD_TOPIC)
    assert await rig.end(prepared) == GONE, "it was not committed, so the broker must not say that it was"
    rig.settings.transaction_checks_max = 15
    assert await rig.resume(away.position) == ResponseCode.SUCCESS
    assert await rig.resume(away.position) == ResponseCode.SUCCESS, "it waits already"
    again = rig.records(HALF_TOPIC)[1:]
    assert [decode_properties(each.properties).get("TRANSACTION_CHECK_TIMES") for each in again] == ["0"]
    assert await rig.end(prepared) == ResponseCode.SUCCESS, "its producer need not know where it waits"
    assert (rig.bodies(), rig.op_bodies) == (["body of U1"], ["0,", "1,"])
    assert await rig.resume(away.position) == GONE
    assert await rig.resume(prepared.position) == GONE


async def test_a_copy_of_what_is_committed_is_not_committed_again() -> None:
    """Apache RocketMQ may ask about a prepared message, and write it again, while its op record is on its way."""
    rig = Rig()
    await rig.end(await rig.prepared("U1"))
    copy = await rig.prepared("U1", "TRANSACTION_CHECK_TIMES\x011\x02")
    assert await rig.end(copy) == ResponseCode.SUCCESS
    assert (rig.bodies(), rig.op_bodies) == (["body of U1"], ["0,", "1,"])
    other = await rig.prepared("U1", "TRANSACTION_CHECK_TIMES\x011\x02", body="another with this key")
    assert await rig.end(other) == ResponseCode.SUCCESS
    assert rig.bodies() == ["body of U1", "another with this key"]


async def test_only_prepared_messages_can_be_resumed() -> None:
    rig = Rig()
    rig.store.append([Draft(topic="orders", queue_id=1, body=b"plain", properties=b"PGROUP\x01payers\x02")])
    rig.store.flush()
    assert await rig.resume(0) == REFUSED
    assert await rig.resume(5) == REFUSED


async def test_transactions_end_in_any_order_around_the_end_of_a_queue_file() -> None:
    store = StoreSettings(segment_bytes=1 << 14, queue_file_entries=8, index_slots=10, index_entries=50)
    rig = Rig(store=store)
    prepared = [await rig.prepared(f"U{number}") for number in range(12)]
    for each in (prepared[11], prepared[8], prepared[3], prepared[9]):
        assert await rig.end(each) == ResponseCode.SUCCESS
    assert rig.bodies() == ["body of U11", "body of U8", "body of U3", "body of U9"]


async def test_a_prepared_message_that_was_sent_twice_is_not_committed_a_second_time_by_a_check() -> None:
    """A producer that waits in vain for a response sends again, and only ever ends the second one."""
    rig = Rig()
    first, second = await rig.prepared("U1"), await rig.prepared("U1")
    assert await rig.end(second) == ResponseCode.SUCCESS
    assert await rig.end(first, from_transaction_check=True) == ResponseCode.SUCCESS
    assert rig.bodies() == ["body of U1"]
    assert not rig.log.is_waiting(first.offset)


async def test_a_check_commits_what_only_shares_its_key_with_another_message() -> None:
    rig = Rig()
    first, second = await rig.prepared("U1", body="one"), await rig.prepared("U1", body="two")
    assert await rig.end(second) == ResponseCode.SUCCESS
    assert await rig.end(first, from_transaction_check=True) == ResponseCode.SUCCESS
    assert rig.bodies() == ["two", "one"]
