"""Order: a failing message holds its queue, a queue has one owner, and who lost a queue says nothing about it."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from pyromq.aio import OrderlyStatus, PushConsumer, QueueId, ReceivedMessage
from pyromq.client.consumer.rules.flow_control import FlowLimits
from pyromq.client.consumer.rules.queue_lock import TRUSTED_MS
from pyromq.client.consumer.rules.queue_state import Ownership
from pyromq.results import OrderlyResult
from pyromq.testing import ManualClock
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.properties import decode_properties
from tests.integration.quick_consumer import QUEUE, quick_consumer
from tests.integration.scripted_queues import NAME, ScriptedQueues, scripted_queues
from tests.integration.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quiet")]

GROUP = "ordered"
OTHER = QueueId("T", NAME, 1)


def consumer(broker: ScriptedQueues, listener: Any, **changes: Any) -> PushConsumer:
    return quick_consumer(broker, listener, orderly=True, rebalance_ms=200, **changes)


# --- failures -------------------------------------------------------------------------------------------------------


async def test_a_message_that_failed_too_often_is_a_dead_letter_and_its_queue_goes_on() -> None:
    attempts: list[int] = []
    others: list[bytes] = []

    async def handle(message: ReceivedMessage) -> OrderlyStatus:
        if message.body == b"sick":
            attempts.append(message.delivery_attempt)
            return OrderlyStatus.SUSPEND
        others.append(message.body)
        return OrderlyStatus.SUCCESS

    async with scripted_queues(GROUP, queues=2) as broker:
        broker.put(b"sick")
        broker.put(b"behind")
        broker.put(b"elsewhere", queue=1)
        async with consumer(broker, handle, attempts_max=3):
            await until(lambda: broker.committed[QUEUE] == 2)
        assert attempts == [0, 1, 2, 3] and set(others) == {b"behind", b"elsewhere"}
        ((_, sent),) = broker.asked[Code.SEND_MESSAGE_V2]
        header = sent.header
        assert (sent.body, header.topic, header.reconsume_times, header.max_reconsume_times) == (
            *(b"sick", "%RETRY%ordered"),
            *(4, 3),
        ), "more attempts than allowed: the broker makes it a dead letter, whether it sees locks or not"
        properties = decode_properties((header.properties or "").encode())
        assert (properties["RETRY_TOPIC"], properties["UNIQ_KEY"]) == ("T", "ID-sick")
        assert not broker.asked[Code.CONSUMER_SEND_MSG_BACK]


async def test_a_message_that_finds_no_grave_holds_its_queue_and_no_other() -> None:
    tries: Counter[bytes] = Counter()

    def handle(message: ReceivedMessage) -> None:
        tries[message.body] += 1
        if message.body == b"sick":
            raise ValueError("sick")

    async with scripted_queues(GROUP, queues=2) as broker:
        broker.codes[Code.SEND_MESSAGE_V2] = 14
        broker.put(b"sick")
        broker.put(b"behind")
        broker.put(b"elsewhere", queue=1)
        async with consumer(broker, handle, attempts_max=0):
            await until(lambda: tries[b"sick"] > 3 and broker.committed[OTHER] == 1)
            assert tries[b"behind"] == 0 and broker.committed[QUEUE] == 0
            broker.codes[Code.SEND_MESSAGE_V2] = 0
            await until(lambda: broker.committed[QUEUE] == 2)
        assert tries[b"behind"] == 1


async def test_without_a_limit_a_message_is_tried_until_it_succeeds() -> None:
    attempts: list[int] = []

    async def handle(message: ReceivedMessage) -> OrderlyResult:
        attempts.append(message.delivery_attempt)
        return OrderlyResult(OrderlyStatus.SUCCESS if len(attempts) > 20 else OrderlyStatus.SUSPEND, suspend_ms=0)

    async with scripted_queues(GROUP) as broker:
        broker.put(b"0")
        async with consumer(broker, handle):
            await until(lambda: broker.committed[QUEUE] == 1)
        assert attempts == list(range(21)) and not broker.asked[Code.SEND_MESSAGE_V2]


async def test_a_listener_that_commits_itself_commits_when_it_says_so_and_can_go_back() -> None:
    seen: list[int] = []

    async def handle(message: ReceivedMessage) -> OrderlyStatus:
        seen.append(message.offset)
        if message.offset == 2:
            return OrderlyStatus.ROLLBACK if seen.count(2) == 1 else OrderlyStatus.COMMIT
        return OrderlyStatus.SUCCESS

    async with scripted_queues(GROUP) as broker:
        for number in range(5):
            broker.put(b"%d" % number)
        async with consumer(broker, handle, auto_commit=False) as member:
            await until(lambda: seen == [0, 1, 2, 0, 1, 2, 3, 4])
            await until(lambda: broker.committed[QUEUE] == 3)
            assert member.offsets("T")[QUEUE] == 3, "3 and 4 were not committed"
        assert broker.committed[QUEUE] == 3


# --- owners ---------------------------------------------------------------------------------------------------------


async def test_a_member_that_lost_its_lock_commits_nothing_more() -> None:
    release, began = asyncio.Event(), asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        if message.offset == 1:
            began.set()
            await release.wait()

    async with scripted_queues(GROUP) as broker:
        for number in range(3):
            broker.put(b"%d" % number)
        async with consumer(broker, handle) as member:
            await asyncio.wait_for(began.wait(), PATIENCE_S)
            await until(lambda: broker.committed[QUEUE] == 1)
            broker.locks[QUEUE] = "somebody else"
            owned = member._share.owned[QUEUE]
            await until(lambda: owned.ownership is Ownership.ABANDONED, "the next renewal was refused")
            broker.committed[QUEUE] = 2  # the other one is ahead
            mark = len(broker.commits[QUEUE])
            release.set()
            await until(lambda: QUEUE not in member.assignment)
            renewals = len(broker.asked[Code.LOCK_BATCH_MQ])
            await until(lambda: len(broker.asked[Code.LOCK_BATCH_MQ]) > renewals + 2)
            assert broker.commits[QUEUE][mark:] == []
        assert broker.committed[QUEUE] == 2


async def test_a_member_that_renews_too_late_stops_and_begins_anew_from_what_is_stored() -> None:
    """The broker does not answer renewals: after 30 s the lock counts as gone, though no broker said so."""
    clock = ManualClock()
    seen: list[int] = []

    async def handle(message: ReceivedMessage) -> None:
        seen.append(message.offset)

    async with scripted_queues(GROUP) as broker:
        broker.put(b"0")
        async with consumer(broker, handle, clock=clock) as member:
            await until(lambda: seen == [0] and broker.committed[QUEUE] == 1)
            first = member._share.owned[QUEUE]
            broker.codes[Code.LOCK_BATCH_MQ] = 1
            clock.advance_ms(TRUSTED_MS + 1)
            mark = len(broker.commits[QUEUE])
            broker.put(b"1")  # the pull that is held brings it; it must not be consumed
            await until(lambda: member._share.owned.get(QUEUE) is not first, "given up")
            assert seen == [0] and broker.commits[QUEUE][mark:] == []
            broker.codes[Code.LOCK_BATCH_MQ] = 0
            await until(lambda: seen == [0, 1])


class Unmoved(dict[QueueId, int]):
    """Offsets that no commit changes: one may be under way, with a pull."""

    def __setitem__(self, queue: QueueId, offset: int) -> None:
        pass


async def test_a_renewal_that_comes_too_late_does_not_bring_the_lock_back() -> None:
    """Between the end of the lock and its renewal somebody else may have had the queue, and moved on."""
    clock = ManualClock()

    async def handle(message: ReceivedMessage) -> None: ...

    async with scripted_queues(GROUP) as broker:
        async with consumer(broker, handle, clock=clock) as member:
            await until(lambda: QUEUE in member.assignment)
            first = member._share.owned[QUEUE]
            clock.advance_ms(TRUSTED_MS + 1)
            broker.committed = Unmoved({QUEUE: 5})
            await until(lambda: member._share.owned.get(QUEUE, first) is not first, "given up and taken anew")
            assert member.offsets("T")[QUEUE] == 5


async def test_a_crashed_member_is_followed_by_another_when_its_lock_has_run_out_and_not_before() -> None:
    active: dict[int, str] = {}
    overlaps = 0
    seen: list[tuple[str, int]] = []

    def listener(name: str) -> Any:
        async def handle(message: ReceivedMessage) -> None:
            nonlocal overlaps
            overlaps += message.queue_id in active
            active[message.queue_id] = name
            await asyncio.sleep(0)
            del active[message.queue_id]
            seen.append((name, message.offset))

        return handle

    async with scripted_queues(GROUP) as broker:
        broker.put(b"0")
        first = consumer(broker, listener("first"), name="first")
        await first.open()
        await until(lambda: seen == [("first", 0)] and broker.committed[QUEUE] == 1)
        async with consumer(broker, listener("second"), name="second") as second:
            crashed = broker.members.pop(first.client.id)
            first._is_open = False  # it does not come to leave the group, nor to unlock
            first._rebalancing.cancel()  # type: ignore[union-attr]
            await first._tasks.close()
            await first.client.tasks.close()
            crashed.close("crashed")
            broker.put(b"1")
            refused = len(broker.asked[Code.LOCK_BATCH_MQ])
            await until(lambda: len(broker.asked[Code.LOCK_BATCH_MQ]) > refused + 2, "the second one tries")
            assert QUEUE not in second.assignment and len(seen) == 1
            del broker.locks[QUEUE]  # it has run out
            await until(lambda: seen[1:] == [("second", 1)])
        await first.client.close()
        assert overlaps == 0


async def test_messages_of_a_queue_that_stays_after_all_are_consumed_though_none_can_be_pulled() -> None:
    """Another member comes and goes while a listener is busy: the buffer is full, so no pull will ever bring news."""
    release, began = asyncio.Event(), asyncio.Event()
    seen: list[int] = []

    async def handle(message: ReceivedMessage) -> None:
        began.set()
        await release.wait()
        seen.append(message.offset)

    async with scripted_queues(GROUP) as broker:
        for number in range(8):
            broker.put(b"%d" % number)
        async with consumer(broker, handle, limits=FlowLimits(messages_max=2)) as member:
            await asyncio.wait_for(began.wait(), PATIENCE_S)
            owned = member._share.owned[QUEUE]
            for other in ("0", "1", "2"):  # whoever comes first gets the first queue
                broker.members[other] = broker.members[member.client.id]
            member.members_changed()
            await until(lambda: owned.unlocks_tried == 1, "a round has waited for the listener in vain")
            for other in ("0", "1", "2"):
                del broker.members[other]
            release.set()
            await until(lambda: owned.run is None)
            member.members_changed()
            await until(lambda: seen == list(range(8)))
            assert member._share.owned[QUEUE] is owned
