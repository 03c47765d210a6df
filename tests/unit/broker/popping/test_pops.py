"""Pops: hand-outs, acknowledgements, invisible times, attempts, dead letters, order; time stands still."""

from __future__ import annotations

import asyncio
import errno
from dataclasses import replace
from random import Random

import msgspec
import pytest

from pyromq.broker.base.refusals import RefusedError
from pyromq.broker.popping.calls import PopRequest
from pyromq.broker.popping.receipts import InvalidReceiptError, parse_receipt
from pyromq.errors import StoreError
from pyromq.model.names import POP_JOURNAL_TOPIC, dead_letter_topic, pop_retry_topic, pop_retry_topic_v2
from pyromq.model.topic import GroupConfig
from pyromq.store.in_flight.snapshot import follow
from pyromq.store.in_flight.table import InFlightTable
from pyromq.store.scrub import Scrub
from pyromq.store.settings import Flush
from pyromq.wire.codes import ResponseCode
from pyromq.wire.properties import decode_properties
from tests.unit.broker.popping.pop_rig import GROUP, TOPIC, PopRig, bodies, settled

# --- handing out and settling --------------------------------------------------------------------------------------


async def test_a_message_is_handed_out_once_until_its_time_is_over() -> None:
    rig = PopRig()
    rig.send("a", "b")
    first = await rig.pop(invisible_ms=1_000)
    assert bodies(first) == ["a", "b"]
    assert [each.attempts for each in first] == [1, 1]
    assert await rig.pop() == []
    await rig.pass_ms(999)
    assert await rig.pop() == []
    await rig.pass_ms(1)
    second = await rig.pop()
    assert bodies(second) == ["a", "b"]
    assert [each.attempts for each in second] == [2, 2]
    assert [each.record.delivery_attempt for each in second] == [1, 1], "clients count from 0"


async def test_what_is_acknowledged_never_comes_again_and_moves_the_committed_offset() -> None:
    rig = PopRig()
    rig.send("a", "b", "c")
    a, b, c = await rig.pop(invisible_ms=1_000)
    await rig.ack(b)
    assert rig.committed() == 0, "a crash of everything else must not skip the first message"
    await rig.ack(a)
    assert rig.committed() == 2
    await rig.pass_ms(1_000)
    assert bodies(await rig.pop()) == ["c"]
    assert c.receipt


async def test_an_acknowledgement_is_answered_when_it_is_durable() -> None:
    rig = PopRig()
    rig.send("a")
    (message,) = await rig.pop()
    flushed = rig.store.flushed_position
    task = asyncio.create_task(rig.ack(message))
    await asyncio.sleep(0)
    assert not task.done()
    await task
    assert rig.store.flushed_position > flushed


async def test_an_acknowledgement_that_is_not_stored_is_an_error_and_the_message_comes_again() -> None:
    rig = PopRig()
    rig.send("a")
    (message,) = await rig.pop(invisible_ms=1_000)
    rig.disk.fail_syncs()
    with pytest.raises(StoreError):
        await rig.ack(message)
    assert len(rig.pops.table.queues[GROUP, TOPIC, 0].rows) == 1  # type: ignore[index]


async def test_groups_do_not_see_each_others_hand_outs() -> None:
    rig = PopRig()
    rig.send("a")
    (mine,) = await rig.pop()
    (theirs,) = await rig.pop(group="audit")
    await rig.ack(mine)
    assert rig.progress.committed("audit", TOPIC, 0) == 0
    await rig.ack(theirs, group="audit")
    assert rig.progress.committed("audit", TOPIC, 0) == 1


async def test_all_queues_are_popped_and_one_alone_if_asked() -> None:
    rig = PopRig(queues=3)
    for number in range(3):
        rig.send(f"q{number}", queue_id=number)
    assert bodies(await rig.pop(queue_id=1)) == ["q1"]
    assert sorted(bodies(await rig.pop())) == ["q0", "q2"]


async def test_a_priority_topic_hands_out_the_largest_priority_first() -> None:
    rig = PopRig(queues=4, kind="PRIORITY")
    for number in (0, 3, 1):
        rig.send(f"p{number}", queue_id=number)
    assert bodies(await rig.pop(2)) == ["p3", "p1"]
    assert bodies(await rig.pop(2)) == ["p0"]


async def test_a_share_of_the_pops_of_a_priority_topic_may_leave_the_order() -> None:
    rig = PopRig(queues=2, kind="PRIORITY")
    rig.groups.update(GroupConfig(group_name=GROUP, attributes={"priority.factor": "70"}))
    for number in range(100):
        rig.send(f"low-{number}", queue_id=0)
        rig.send(f"high-{number}", queue_id=1)
    firsts = [bodies(await rig.pop(1))[0] for _ in range(100)]
    assert 70 <= sum(body.startswith("high") for body in firsts) < 100


async def test_a_priority_survives_a_retry() -> None:
    rig = PopRig(queues=3, kind="PRIORITY")
    rig.send("urgent", queue_id=2)
    await rig.pop(1, invisible_ms=1_000)
    for number in range(3):
        rig.send(f"later-{number}", queue_id=1)
    await rig.pass_ms(1_000)
    assert bodies(await rig.pop(2)) == ["urgent", "later-0"]


async def test_a_filter_passes_over_what_the_group_does_not_want_for_good() -> None:
    rig = PopRig()
    rig.send("a", TAGS="red")
    rig.send("b", "c", TAGS="blue")
    rig.send("d", TAGS="red")
    first = await rig.pop(expression="red")
    assert bodies(first) == ["a", "d"]
    for message in first:
        await rig.ack(message)
    assert rig.committed() == 4
    rig.send("e", TAGS="blue")
    assert await rig.pop(expression="red") == []
    assert rig.committed() == 5


async def test_sql_filters_work_and_a_broken_one_is_refused() -> None:
    rig = PopRig(property_filter=True)
    rig.send("small", size="1")
    rig.send("large", size="9")
    assert bodies(await rig.pop(expression="size > 5", expression_type="SQL92")) == ["large"]
    with pytest.raises(RefusedError) as caught:
        await rig.pop(expression="size >", expression_type="SQL92")
    assert caught.value.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"count": 33}, ResponseCode.INVALID_PARAMETER),
        ({"count": 0}, ResponseCode.INVALID_PARAMETER),
        ({"invisible_ms": 0}, ResponseCode.INVALID_PARAMETER),
        ({"invisible_ms": 13 * 3_600_000}, ResponseCode.INVALID_PARAMETER),
        ({"queue_id": 7}, ResponseCode.INVALID_PARAMETER),
        ({"topic": "nowhere"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"topic": POP_JOURNAL_TOPIC}, ResponseCode.NO_PERMISSION),
        ({"group": "CID_RMQ_SYS_X"}, ResponseCode.NO_PERMISSION),
    ],
)
async def test_bad_requests_are_refused_with_a_code(changes: dict[str, object], code: ResponseCode) -> None:
    rig = PopRig()
    with pytest.raises(RefusedError) as caught:
        await rig.pop(**{"count": 1} | changes)  # type: ignore[arg-type]
    assert caught.value.code == code


async def test_a_new_group_begins_at_the_oldest_or_at_the_newest_message() -> None:
    rig = PopRig(store=replace(PopRig().settings.store, hot_bytes=0))
    rig.send("a", "b", "c")
    assert bodies(await rig.pop(newest=True)) == ["c"]
    assert bodies(await rig.pop(group="audit")) == ["a", "b", "c"]


async def test_a_group_goes_on_where_it_pulled_before() -> None:
    rig = PopRig()
    rig.send("a", "b", "c")
    rig.progress.commit(GROUP, TOPIC, 0, 2)
    assert bodies(await rig.pop()) == ["c"]


async def test_an_offset_that_somebody_else_commits_counts() -> None:
    rig = PopRig()
    rig.send("a", "b", "c")
    (message, *_) = await rig.pop()
    rig.progress.commit(GROUP, TOPIC, 0, 1)
    assert bodies(await rig.pop()) == ["b", "c"]
    with pytest.raises(InvalidReceiptError):
        await rig.ack(message)
    assert bodies((rig2 := rig.again()) and await rig2.pop()) == [], "the journal knows"


# --- invisible times -----------------------------------------------------------------------------------------------


async def test_the_invisible_time_is_changed_from_now_on_and_the_receipt_with_it() -> None:
    rig = PopRig()
    rig.send("a")
    (message,) = await rig.pop(invisible_ms=1_000)
    receipt = await rig.change(message, 5_000)
    with pytest.raises(InvalidReceiptError):
        await rig.ack(message)
    await rig.pass_ms(4_999)
    assert await rig.pop() == []
    await rig.pops.settler.ack(GROUP, TOPIC, receipt)
    await rig.pass_ms(10_000)
    assert await rig.pop() == []


async def test_zero_makes_visible_at_once_and_counts_a_delivery() -> None:
    rig = PopRig()
    rig.send("a")
    (message,) = await rig.pop()
    await rig.change(message, 0)
    await rig.pass_ms(0)
    (again,) = await rig.pop()
    assert again.attempts == 2


async def test_suspend_releases_without_counting() -> None:
    rig = PopRig()
    rig.send("a")
    for _ in range(5):
        (message,) = await rig.pop()
        assert message.attempts == 1
        await rig.change(message, 0, suspend=True)
        await rig.pass_ms(0)
    assert rig.records(dead_letter_topic(GROUP)) == []


async def test_an_acknowledgement_after_the_time_counts_while_nobody_else_has_the_message() -> None:
    rig = PopRig()
    rig.send("a")
    (late,) = await rig.pop(invisible_ms=1_000)
    await rig.pass_ms(2_000)
    await rig.ack(late)
    assert await rig.pop() == []


async def test_an_acknowledgement_after_the_message_went_to_somebody_else_is_refused() -> None:
    rig = PopRig()
    rig.send("a")
    (late,) = await rig.pop(invisible_ms=1_000)
    await rig.pass_ms(1_000)
    (second,) = await rig.pop()
    with pytest.raises(InvalidReceiptError):
        await rig.ack(late)
    await rig.ack(second)


# --- receipts ------------------------------------------------------------------------------------------------------


async def test_a_receipt_is_used_once_and_by_its_own_group() -> None:
    rig = PopRig()
    rig.send("a")
    (message,) = await rig.pop()
    await rig.pop(group="audit")
    with pytest.raises(InvalidReceiptError):
        await rig.ack(message, group="audit")
    first, second = await asyncio.gather(rig.ack(message), rig.ack(message), return_exceptions=True)
    assert first is None
    assert isinstance(second, InvalidReceiptError)
    with pytest.raises(InvalidReceiptError):
        await rig.ack(message)


async def test_a_hundred_thousand_forged_receipts_are_refused() -> None:
    rig = PopRig()
    rig.send("a", "b")
    (a, _) = await rig.pop()
    good, rng, refused = parse_receipt(a.receipt), Random(1), 0
    for _ in range(100_000):
        forged = good._replace(
            **{rng.choice(("number", "popped_ms", "offset", "queue_id", "kind")): rng.getrandbits(31)}
        )
        try:
            await rig.pops.settler.ack(GROUP, TOPIC, forged.text())
        except InvalidReceiptError:
            refused += 1
    assert refused == 100_000
    await rig.ack(a)


@pytest.mark.parametrize("text", ["", "1 2 3", "a b c d e f g h", "1 2 3 4 9 broker 0 0", "1 " * 600])
async def test_a_receipt_that_is_none_is_refused_in_words(text: str) -> None:
    rig = PopRig()
    with pytest.raises(InvalidReceiptError, match="receipt is not valid"):
        await rig.pops.settler.ack(GROUP, TOPIC, text)


# --- dead letters --------------------------------------------------------------------------------------------------


async def test_a_message_that_was_delivered_often_enough_is_a_dead_letter() -> None:
    rig = PopRig()
    rig.groups.update(GroupConfig(group_name=GROUP, retry_max_times=2))
    rig.send("poison", colour="red")
    for attempts in (1, 2, 3):
        (message,) = await rig.pop(invisible_ms=1_000)
        assert message.attempts == attempts
        await rig.pass_ms(1_000)
    assert await rig.pop() == []
    (dead,) = rig.records(dead_letter_topic(GROUP))
    assert dead.body == b"poison"
    properties = decode_properties(dead.properties)
    assert properties["RETRY_TOPIC"] == TOPIC
    assert properties["colour"] == "red"
    assert dead.delivery_attempt == 3
    assert rig.committed() == 1
    assert rig.counters.dead[TOPIC, GROUP] > 0


async def test_a_dead_letter_that_cannot_be_stored_is_tried_again() -> None:
    rig = PopRig(flush=Flush.ASYNC)
    rig.groups.update(GroupConfig(group_name=GROUP, retry_max_times=0))
    rig.send("poison")
    await rig.pop(invisible_ms=1_000)
    whole, rig.pops._dead._put = rig.pops._dead._put, lambda draft, then: (_ for _ in ()).throw(StoreError("full"))  # type: ignore[assignment]
    await rig.pass_ms(1_000)
    assert await rig.pop() == []
    assert rig.records(dead_letter_topic(GROUP)) == []
    rig.pops._dead._put = whole
    await rig.pass_ms(1_000)
    assert len(rig.records(dead_letter_topic(GROUP))) == 1


async def test_a_consumer_forwards_a_message_to_the_dead_letters() -> None:
    rig = PopRig()
    rig.send("a", "b")
    a, b = await rig.pop()
    await rig.pops.settler.forward_to_dead_letters(GROUP, TOPIC, a.receipt)
    assert [each.body for each in rig.records(dead_letter_topic(GROUP))] == [b"a"]
    with pytest.raises(InvalidReceiptError):
        await rig.ack(a)
    await rig.ack(b)
    assert rig.committed() == 2


# --- order ---------------------------------------------------------------------------------------------------------


async def test_order_blocks_one_message_group_and_not_its_queue() -> None:
    rig = PopRig()
    rig.send("a1", __SHARDINGKEY="a")
    (first,) = await rig.pop(order=True)
    rig.send("a2", __SHARDINGKEY="a")
    rig.send("b1", __SHARDINGKEY="b")
    rig.send("a3", __SHARDINGKEY="a")
    rig.send("b2", __SHARDINGKEY="b")
    assert bodies(await rig.pop(order=True)) == ["b1", "b2"]
    assert await rig.pop(order=True) == []
    await rig.ack(first)
    assert bodies(await rig.pop(order=True)) == ["a2", "a3"]


async def test_in_order_a_failed_message_comes_again_before_the_next_of_its_group() -> None:
    rig = PopRig()
    rig.send("a1", "a2", __SHARDINGKEY="a")
    (first,) = await rig.pop(1, order=True, invisible_ms=1_000)
    assert await rig.pop(order=True) == []
    await rig.change(first, 0)
    await rig.pass_ms(0)
    again = await rig.pop(order=True)
    assert bodies(again) == ["a1", "a2"]
    assert [each.attempts for each in again] == [2, 1]


async def test_messages_without_a_message_group_are_in_one_line() -> None:
    rig = PopRig()
    rig.send("a", "b")
    (first,) = await rig.pop(1, order=True)
    assert await rig.pop(order=True) == []
    await rig.ack(first)
    assert bodies(await rig.pop(order=True)) == ["b"]


async def test_the_same_attempt_id_gets_the_lost_response_again_uncounted() -> None:
    rig = PopRig()
    rig.send("a", "b", __SHARDINGKEY="k")
    first = await rig.pop(order=True, attempt_id="x")
    assert await rig.pop(order=True, attempt_id="y") == []
    again = await rig.pop(order=True, attempt_id="x")
    assert bodies(again) == ["a", "b"]
    assert [each.attempts for each in again] == [1, 1]
    with pytest.raises(InvalidReceiptError):
        await rig.ack(first[0])
    await rig.ack(again[0])


async def test_order_is_known_after_a_crash() -> None:
    rig = PopRig()
    rig.send("a1", __SHARDINGKEY="a")
    await rig.pop(1, order=True, invisible_ms=60_000)
    rig.send("a2", __SHARDINGKEY="a")
    rig.send("b1", __SHARDINGKEY="b")
    (b1,) = await rig.pop(order=True)
    await rig.ack(b1)
    later = rig.again()
    assert await later.pop(order=True) == []
    later.send("b2", __SHARDINGKEY="b")
    later.send("a3", __SHARDINGKEY="a")
    assert bodies(await later.pop(order=True, invisible_ms=120_000)) == ["b2"]
    await later.pass_ms(60_000)
    assert bodies(await later.pop(order=True)) == ["a1", "a2", "a3"]


# --- waiting -------------------------------------------------------------------------------------------------------


def request(**changes: object) -> PopRequest:
    return msgspec.convert({"group": GROUP, "topic": TOPIC, "poll_ms": 10_000} | changes, PopRequest)


async def send_and_wake(rig: PopRig, *sent: str) -> None:
    rig.send(*sent)
    rig.pops.waiting.wake([(TOPIC, 0)])
    await settled()


async def test_a_waiting_pop_gets_the_next_message() -> None:
    rig = PopRig()
    task = asyncio.create_task(rig.pops.pop(request()))
    await settled()
    assert not task.done()
    assert rig.pops.waiting.held_by(GROUP, TOPIC, -1) == 1
    await send_and_wake(rig, "a")
    result = await task
    assert result is not None
    assert bodies(result.messages()) == ["a"]


async def test_one_message_wakes_one_of_many() -> None:
    rig = PopRig()
    tasks = [asyncio.create_task(rig.pops.pop(request())) for _ in range(5)]
    await settled()
    await send_and_wake(rig, "a")
    assert [task.done() for task in tasks] == [True, False, False, False, False]
    await rig.pass_ms(10_000)
    assert [await task for task in tasks[1:]] == [None] * 4


async def test_a_waiting_pop_hears_of_an_expired_hand_out() -> None:
    rig = PopRig()
    rig.send("a")
    await rig.pop(invisible_ms=1_000)
    task = asyncio.create_task(rig.pops.pop(request()))
    await settled()
    await rig.pass_ms(1_000)
    result = await task
    assert result is not None
    assert result.messages()[0].attempts == 2


async def test_a_tick_is_due_when_the_pop_of_another_came_upon_an_expired_hand_out() -> None:
    """Else an idle broker would let the waiting one wait for its next second."""
    rig = PopRig()
    rig.send("a")
    await rig.pop(invisible_ms=1_000)
    await rig.pop(group="others", invisible_ms=60_000)
    await rig.pass_ms(0)
    task = asyncio.create_task(rig.pops.pop(request()))
    await settled()
    rig.clock.advance_ms(1_000)
    assert await rig.pop(group="others") == []
    assert rig.popping.is_due(rig.clock.monotonic_ms(), rig.clock.now_ms())
    await rig.pass_ms(0)
    assert await task is not None
    await rig.pass_ms(0)
    assert not rig.popping.is_due(rig.clock.monotonic_ms(), rig.clock.now_ms())


async def test_a_replica_that_lacks_much_of_the_journal_applies_it_with_every_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = PopRig()
    before.send("a", "b", "c")
    for _ in range(3):
        await before.pop(1)
        await before.pass_ms(0)
    rig = before.again()
    rig.popping.keeper._table.applied = 0
    replica = replace(rig.popping, is_replica=True)
    monkeypatch.setattr("pyromq.broker.popping.keeping._FOLLOWED_MAX", 2)
    monkeypatch.setattr("pyromq.store.in_flight.snapshot._READ_COUNT", 1)
    replica.tick()
    assert replica.is_due(rig.clock.monotonic_ms(), rig.clock.now_ms())
    replica.tick()
    assert not replica.is_due(rig.clock.monotonic_ms(), rig.clock.now_ms())


async def test_a_waiting_pop_in_order_hears_of_an_acknowledgement() -> None:
    rig = PopRig()
    rig.send("a", "b")
    (first,) = await rig.pop(1, order=True)
    task = asyncio.create_task(rig.pops.pop(request(order=True)))
    await settled()
    await rig.ack(first)
    result = await task
    assert result is not None
    assert bodies(result.messages()) == ["b"]


async def test_nothing_is_handed_out_to_whoever_is_gone() -> None:
    rig = PopRig()
    owner = object()
    task = asyncio.create_task(rig.pops.pop(request(), owner))
    cancelled = asyncio.create_task(rig.pops.pop(request()))
    await settled()
    rig.pops.waiting.drop_owner(owner)
    cancelled.cancel()
    await settled()
    await send_and_wake(rig, "a")
    assert not task.done()
    (message,) = await rig.pop()
    assert message.attempts == 1
    task.cancel()


async def test_what_could_not_be_delivered_is_given_back_uncounted() -> None:
    rig = PopRig()
    rig.send("a")
    result = await rig.pop_result()
    assert result is not None
    rig.pops.settler.give_back(result)
    await settled()
    await rig.pass_ms(0)
    assert [each.attempts for each in await rig.pop()] == [1]


async def test_a_wait_tells_that_there_is_something_and_takes_nothing() -> None:
    rig = PopRig()
    task = asyncio.create_task(rig.pops.wait(request()))
    await settled()
    await send_and_wake(rig, "a")
    assert await task is True
    assert bodies(await rig.pop()) == ["a"]
    assert await rig.pops.wait(request(poll_ms=0)) is False


async def test_who_only_looks_leaves_no_trace_in_the_journal() -> None:
    rig = PopRig()
    rig.send("a")
    for _ in range(30):
        assert await rig.pops.wait(PopRequest(group=GROUP, topic=TOPIC))
        await rig.pass_ms(1_000)
    assert rig.records(POP_JOURNAL_TOPIC) == []
    assert not rig.pops.table.queues, "where the group begins is for its first pop to say"
    await rig.ack((await rig.pop())[0])
    assert not await rig.pops.wait(PopRequest(group=GROUP, topic=TOPIC))


async def test_a_queue_without_messages_in_flight_is_forgotten_ten_minutes_after_it_was_used() -> None:
    rig = PopRig()
    rig.send("a")
    await rig.ack((await rig.pop())[0])
    later = rig.again()
    await later.pass_ms(600_000)
    assert len(later.pops.table.queues) == 1, "a restart is no reason"
    await later.pass_ms(1_000)
    assert not later.pops.table.queues
    later.send("b")
    assert bodies(await later.pop()) == ["b"]


async def test_too_many_waiting_pops_are_told_to_come_again() -> None:
    rig = PopRig(held_pulls_max=1)
    task = asyncio.create_task(rig.pops.pop(request()))
    await settled()
    with pytest.raises(RefusedError) as caught:
        await rig.pops.pop(request())
    assert caught.value.code == ResponseCode.POLLING_FULL
    task.cancel()


# --- after a stop --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clean", [True, False])
async def test_a_restart_knows_what_is_in_flight_what_was_acknowledged_and_the_attempts(clean: bool) -> None:
    rig = PopRig()
    rig.send("a", "b", "c", "d")
    a, b, _, _ = await rig.pop(invisible_ms=60_000)
    await rig.ack(b)
    receipt = await rig.change(a, 30_000)
    if clean:
        rig.close()
    later = rig.again(rig.disk if clean else None)
    assert await later.pop() == []
    assert later.committed() == 0
    await later.pops.settler.ack(GROUP, TOPIC, receipt)
    assert later.committed() == 2
    await later.pass_ms(60_000)
    again = await later.pop()
    assert bodies(again) == ["c", "d"]
    assert [each.attempts for each in again] == [2, 2]


async def test_a_snapshot_and_the_journal_behind_it_make_the_table() -> None:
    rig = PopRig()
    rig.send(*(f"m{number}" for number in range(10)))
    first = await rig.pop(5)
    await rig.ack(first[0])
    rig.popping.keeper.save_now()
    await rig.ack(first[3])
    await rig.pop(5)
    await rig.pass_ms(0)
    later = rig.again()
    queue = later.pops.table.queues[GROUP, TOPIC, 0]  # type: ignore[index]
    assert sorted(queue.rows) == [1, 2, 4, 5, 6, 7, 8, 9]
    assert (queue.low, queue.next) == (1, 10)


async def test_a_wall_clock_that_jumps_brings_nothing_acknowledged_back() -> None:
    rig = PopRig()
    rig.send("a", "b")
    for message in await rig.pop():
        await rig.ack(message)
    rig.clock.set_ms(rig.clock.now_ms() + 3_600_000)
    await rig.pass_ms(1_000)
    later = rig.again()  # the table of offsets was not saved since
    assert bodies(await later.pop()) == []


async def test_a_damaged_snapshot_is_replaced_by_the_journal() -> None:
    rig = PopRig()
    rig.send("a", "b")
    a, _ = await rig.pop()
    await rig.ack(a)
    rig.close()
    disk = rig.disk.after_crash()
    for name in ("popInFlight.json", "popInFlight.json.bak"):
        path = rig.store.layout.config / name
        if disk.exists(path):
            disk.write(path, b'{"applied":"broken"')
    later = rig.again(disk)
    assert sorted(later.pops.table.queues[GROUP, TOPIC, 0].rows) == [1]  # type: ignore[index]


# --- stores of Apache RocketMQ -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [pop_retry_topic(GROUP, TOPIC), pop_retry_topic_v2(GROUP, TOPIC)])
async def test_retry_topics_that_a_store_brings_along_are_popped_under_the_topics_name(name: str) -> None:
    rig = PopRig()
    rig.topics.create(name, queues=1)
    rig.send("failed before", topic=name)
    rig.send("new")
    messages = await rig.pop()
    assert bodies(messages) == ["failed before", "new"]
    assert {each.record.topic.decode() for each in messages} == {TOPIC}
    assert decode_properties(messages[0].record.properties)["POP_CK"] == messages[0].receipt
    for message in messages:
        await rig.ack(message)
    assert rig.progress.committed(GROUP, name, 0) == 1


async def test_in_order_a_released_message_is_first_again_before_any_tick() -> None:
    rig = PopRig()
    rig.send("a1", "a2", __SHARDINGKEY="a")
    (first,) = await rig.pop(1, order=True)
    await rig.change(first, 0)
    assert bodies(await rig.pop(order=True)) == ["a1", "a2"]


async def test_in_order_nothing_overtakes_a_message_that_is_about_to_die(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyromq.broker.popping.pops._BURIED_MAX", 0)  # as if many others died in this tick
    rig = PopRig()
    rig.groups.update(GroupConfig(group_name=GROUP, retry_max_times=0))
    rig.send("a1", "a2", __SHARDINGKEY="a")
    await rig.pop(1, order=True, invisible_ms=1_000)
    await rig.pass_ms(1_000)
    assert bodies(await rig.pop(order=True)) == []


async def test_in_order_a_wait_is_not_told_of_what_is_blocked() -> None:
    rig = PopRig()
    rig.send("a1", "a2", __SHARDINGKEY="a")
    (first,) = await rig.pop(1, order=True)
    assert bodies(await rig.pop(order=True)) == []  # a2 is a row that waits now
    request = PopRequest(group=GROUP, topic=TOPIC, order=True)
    assert not await rig.pops.wait(request)
    await rig.ack(first)
    assert await rig.pops.wait(request)


async def test_a_wait_is_not_told_of_messages_that_the_group_may_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyromq.broker.popping.taking.ROWS_MAX", 2)
    rig = PopRig()
    rig.send("a", "b", "c")
    first, _ = await rig.pop(2)
    assert bodies(await rig.pop()) == []
    assert not await rig.pops.wait(PopRequest(group=GROUP, topic=TOPIC))
    await rig.ack(first)
    assert await rig.pops.wait(PopRequest(group=GROUP, topic=TOPIC))
    assert bodies(await rig.pop()) == ["c"]


async def test_what_was_popped_while_the_disk_was_full_comes_again_after_a_crash() -> None:
    """Its hand-out could not be written; one that was written later must not let a replay pass over it."""
    rig = PopRig()
    rig.send("a", "b")
    rig.disk.fail_at(rig.disk.operations + 1, errno.ENOSPC)
    assert bodies(await rig.pop(1, invisible_ms=10_000)) == ["a"]
    assert rig.store.health.full
    rig.store.health.space_returned()
    (later,) = await rig.pop(1, invisible_ms=10_000)
    await rig.ack(later)
    after = rig.again()
    await after.pass_ms(20_000)
    assert bodies(await after.pop()) == ["a"]


# --- a message that is damaged here, and whole on another member ----------------------------------------------------


async def damaged_rig(rig: PopRig, body: str) -> tuple[PopRig, Scrub]:
    """The same broker after a restart, in whose log a bit of one message has flipped; it may hand over."""
    await rig.pass_ms(0)  # what was handed out is written down
    rig.close()
    again = PopRig(rig.disk, rig.clock)
    again.groups.update(rig.groups.find(GROUP) or GroupConfig(group_name=GROUP))
    scrub = Scrub(again.store, again.disk, again.clock, lambda job: job())
    scrub.holds_reads = True
    flip(again, body)
    return again, scrub


def flip(rig: PopRig, body: str) -> None:
    """One bit of the first letter of a body."""
    (segment,) = rig.store.log.segments
    at = rig.disk.read(segment.path).index(body.encode())
    rig.disk.flip_bit(segment.path, at * 8)


async def test_a_damaged_message_is_not_settled_when_its_time_is_over() -> None:
    before = PopRig()
    before.send("first", "second", "third")
    assert len(await before.pop(invisible_ms=1_000)) == 3
    rig, scrub = await damaged_rig(before, "second")
    await rig.pass_ms(1_000)
    assert bodies(await rig.pop(invisible_ms=60_000)) == ["first"]
    assert len(rig.pops.table.queues[GROUP, TOPIC, 0].rows) == 3  # type: ignore[index]
    await rig.pass_ms(1_000)
    assert await rig.pop() == [] and rig.committed() == 0 and rig.store.health.damage
    flip(rig, "recond")
    scrub.mended(scrub.damaged[0].position)
    await rig.pass_ms(1_000)
    found = await rig.pop()
    assert bodies(found) == ["second", "third"] and [each.attempts for each in found] == [2, 2]


async def test_in_order_nothing_of_its_message_group_passes_a_damaged_message() -> None:
    before = PopRig()
    before.send("first", __SHARDINGKEY="a")
    before.send("other", __SHARDINGKEY="b")
    before.send("next", __SHARDINGKEY="a")
    assert bodies(await before.pop(invisible_ms=1_000, order=True)) == ["first", "other", "next"]
    rig, scrub = await damaged_rig(before, "first")
    rig.send("last", __SHARDINGKEY="a")
    await rig.pass_ms(1_000)
    assert await rig.pop(order=True) == []
    await rig.pass_ms(1_000)
    assert await rig.pop(order=True) == []
    flip(rig, "girst")
    scrub.mended(scrub.damaged[0].position)
    await rig.pass_ms(1_000)
    assert bodies(await rig.pop(order=True)) == ["first", "other", "next", "last"]


async def test_a_damaged_message_is_no_dead_letter_before_it_is_mended() -> None:
    before = PopRig()
    before.groups.update(GroupConfig(group_name=GROUP, retry_max_times=0))
    before.send("first", "second")
    assert len(await before.pop(invisible_ms=1_000)) == 2
    rig, scrub = await damaged_rig(before, "second")
    await rig.pass_ms(1_000)
    await rig.pass_ms(1_000)
    assert [each.body for each in rig.records(dead_letter_topic(GROUP))] == [b"first"]
    flip(rig, "recond")
    scrub.mended(scrub.damaged[0].position)
    await rig.pass_ms(1_000)
    assert [each.body for each in rig.records(dead_letter_topic(GROUP))] == [b"first", b"second"]
    assert rig.committed() == 2


async def test_forwarding_a_damaged_message_to_dead_letters_is_for_later() -> None:
    before = PopRig()
    before.send("first")
    (message,) = await before.pop(invisible_ms=60_000)
    rig, _ = await damaged_rig(before, "first")
    with pytest.raises(RefusedError, match="another member has it"):
        await rig.pops.settler.forward_to_dead_letters(GROUP, TOPIC, message.receipt)
    flip(rig, "girst")
    await rig.pops.settler.forward_to_dead_letters(GROUP, TOPIC, message.receipt)
    assert [each.body for each in rig.records(dead_letter_topic(GROUP))] == [b"first"]


async def test_a_damaged_message_that_nobody_else_has_is_passed_over() -> None:
    before = PopRig()
    before.send("first", "second", "third")
    await before.pop(invisible_ms=1_000)
    rig, scrub = await damaged_rig(before, "second")
    scrub.holds_reads = False
    await rig.pass_ms(1_000)
    for message in await rig.pop():
        await rig.ack(message)
    assert rig.committed() == 3


async def test_a_replica_applies_nothing_behind_a_damaged_record_of_the_journal() -> None:
    """Later records say that a group is further: without the damaged one messages would be passed over."""
    before = PopRig()
    before.send("first", "second", "third")
    (first,) = await before.pop(1, invisible_ms=60_000)
    await before.ack(first)
    await before.pop(1, invisible_ms=60_000)
    rig, scrub = await damaged_rig(before, "third")
    flip(rig, "uhird")
    position, size, _ = next(rig.store.reader.entries(POP_JOURNAL_TOPIC, 0, 1, 1))
    (segment,) = rig.store.log.segments
    rig.disk.flip_bit(segment.path, (position + size // 2) * 8)
    table = InFlightTable()
    assert (follow(rig.store, table), table.applied) == (1, 1)
    assert (follow(rig.store, table), table.applied) == (0, 1)
    rig.disk.flip_bit(segment.path, (position + size // 2) * 8)
    scrub.mended(position)
    assert (follow(rig.store, table), table.applied) == (1, 2)
    assert table.queues.keys() == rig.pops.table.queues.keys()


async def test_a_damaged_record_of_the_journal_that_nobody_else_has_costs_no_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Groups go on at what they have committed: some messages come again, none is passed over."""
    rig = PopRig()
    rig.send("first", "second", "third")
    (first,) = await rig.pop(1, invisible_ms=60_000)
    await rig.ack(first)
    await rig.pop(1, invisible_ms=60_000)
    await rig.pass_ms(0)
    (third,) = await rig.pop(1, invisible_ms=60_000)
    await rig.ack(third)
    rig.progress.table.save()
    rig.store.seal()
    position, size, _ = next(rig.store.reader.entries(POP_JOURNAL_TOPIC, 0, 1, 1))
    (segment,) = rig.store.log.segments
    rig.store.close()  # without a snapshot of what is in flight
    rig.disk.flip_bit(segment.path, (position + size // 2) * 8)
    again = PopRig(rig.disk, rig.clock)
    assert "go on at their committed offsets" in caplog.text
    assert bodies(await again.pop()) == ["second", "third"]
