"""What fails is sent back before progress passes it: to its broker, as a copy, or kept here."""

from __future__ import annotations

import asyncio
import threading
import zlib
from collections import Counter
from typing import Any

import pytest

from pyromq.aio import ConsumeStatus, PushConsumer, ReceivedMessage
from pyromq.errors import ConfigError
from pyromq.results import BatchResult
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.flags import SysFlag
from pyromq.wire.properties import decode_properties
from tests.integration.quick_consumer import QUEUE, quick_consumer, quick_settings
from tests.integration.scripted_queues import scripted_queues
from tests.integration.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quiet")]

GROUP = "billing"


async def fail(message: ReceivedMessage) -> None:
    raise ValueError("no")


class Held:
    """A listener that is not done before it is released."""

    def __init__(self) -> None:
        self.release = asyncio.Event()

    async def __call__(self, message: ReceivedMessage) -> None:
        await self.release.wait()


def progress(member: PushConsumer) -> int:
    return member.offsets("T").get(QUEUE, -1)


async def test_the_broker_that_has_the_message_gets_it_back_and_only_then_progress_passes_it() -> None:
    async with scripted_queues(GROUP) as broker:
        broker.codes[Code.CONSUMER_SEND_MSG_BACK] = None
        position = broker.put(b"0")
        async with quick_consumer(broker, fail, attempts_max=5) as member:
            await until(lambda: broker.asked[Code.CONSUMER_SEND_MSG_BACK])
            (header,) = broker.headers(Code.CONSUMER_SEND_MSG_BACK)
            assert (header.position, header.group, header.delay_level) == (position, GROUP, 0)
            assert (header.origin_msg_id, header.origin_topic, header.max_reconsume_times) == ("ID-0", "T", 5)
            before = len(broker.commits[QUEUE])
            await until(lambda: len(broker.commits[QUEUE]) > before + 2, "commits go on")
            assert progress(member) == 0 and broker.committed[QUEUE] == 0
            broker.answer(broker.asked[Code.CONSUMER_SEND_MSG_BACK][0])
            await until(lambda: broker.committed[QUEUE] == 1)
            assert not broker.asked[Code.SEND_MESSAGE_V2]


async def test_when_it_is_refused_a_copy_goes_to_the_retry_topic() -> None:
    async with scripted_queues(GROUP) as broker:
        broker.codes[Code.CONSUMER_SEND_MSG_BACK] = 1
        packed = zlib.compress(b"x" * 5_000)
        flags = int(SysFlag.COMPRESSED | SysFlag.ZLIB)
        properties = {"KEYS": "k1 k2", "mine": "yes"}
        position = broker.put(packed, attempt=2, unique_id="ID", properties=properties, sys_flag=flags)
        async with quick_consumer(broker, fail) as member:
            await until(lambda: progress(member) == 1)
        ((_, sent),) = broker.asked[Code.SEND_MESSAGE_V2]
        header = sent.header
        assert (header.topic, header.producer_group, header.flag) == ("%RETRY%billing", "CLIENT_INNER_PRODUCER", 0)
        assert (header.reconsume_times, header.max_reconsume_times, header.sys_flag) == (3, None, flags)
        assert sent.body == packed, "as it was stored: unpacked it might be too large"
        properties = decode_properties((header.properties or "").encode())
        assert (properties["RETRY_TOPIC"], properties["DELAY"], properties["KEYS"]) == ("T", "5", "k1 k2")
        assert properties["ORIGIN_MESSAGE_ID"] == f"7F00000100002A9F{position:016X}"
        assert properties["mine"] == "yes" and properties["UNIQ_KEY"] == "ID"


async def test_what_no_broker_takes_stays_and_is_tried_here_again_with_one_attempt_more() -> None:
    attempts: list[int] = []
    tries: Counter[bytes] = Counter()

    async def handle(message: ReceivedMessage) -> ConsumeStatus:
        tries[message.body] += 1
        if message.body == b"1":
            attempts.append(message.delivery_attempt)
            return ConsumeStatus.SUCCESS if len(attempts) == 4 else ConsumeStatus.RETRY
        return ConsumeStatus.SUCCESS

    async with scripted_queues(GROUP) as broker:
        broker.codes |= {Code.CONSUMER_SEND_MSG_BACK: 1, Code.SEND_MESSAGE_V2: 14}
        for number in range(4):
            broker.put(b"%d" % number, attempt=1 if number == 1 else 0)
        async with quick_consumer(broker, handle) as member:
            await until(lambda: len(tries) == 4)
            assert progress(member) == 1, "progress waits for the smallest unfinished message"
            await until(lambda: progress(member) == 4)
            assert (member.counts.failed, member.counts.ok) == (3, 4)
        assert attempts == [1, 2, 3, 4] and sum(tries.values()) == 7


async def test_after_a_restart_what_no_broker_took_comes_again() -> None:
    seen: list[bytes] = []

    async def remember(message: ReceivedMessage) -> None:
        seen.append(message.body)

    async with scripted_queues(GROUP) as broker:
        broker.codes |= {Code.CONSUMER_SEND_MSG_BACK: 1, Code.SEND_MESSAGE_V2: 14}
        broker.put(b"0")
        async with quick_consumer(broker, fail, retry_wait_ms=60_000):
            await until(lambda: broker.asked[Code.SEND_MESSAGE_V2])
        assert broker.committed[QUEUE] == 0
        async with quick_consumer(broker, remember) as member:
            await until(lambda: progress(member) == 1)
        assert seen == [b"0"]


async def test_ladder_listener_and_dead_letters_choose_the_level() -> None:
    async def handle(message: ReceivedMessage) -> BatchResult:
        chosen = {b"2": 9, b"3": -1}.get(message.body, 0)
        return BatchResult(ConsumeStatus.RETRY, delay_level=chosen)

    async with scripted_queues(GROUP) as broker:
        for number, attempt in enumerate((0, 3, 0, 0)):
            broker.put(b"%d" % number, attempt=attempt)
        async with quick_consumer(broker, handle, retry_levels={1: 1, 4: 7}) as member:
            await until(lambda: progress(member) == 4)
        levels = {header.origin_msg_id: header.delay_level for header in broker.headers(Code.CONSUMER_SEND_MSG_BACK)}
        assert levels == {"ID-0": 1, "ID-1": 7, "ID-2": 9, "ID-3": -1}


async def test_a_copy_keeps_the_chosen_level_and_a_dead_one_has_more_attempts_than_allowed() -> None:
    async def handle(message: ReceivedMessage) -> BatchResult:
        return BatchResult(ConsumeStatus.RETRY, delay_level=9 if message.body == b"0" else -1)

    async with scripted_queues(GROUP) as broker:
        broker.codes[Code.CONSUMER_SEND_MSG_BACK] = 1
        broker.put(b"0")
        broker.put(b"1", attempt=2)
        async with quick_consumer(broker, handle) as member:
            await until(lambda: progress(member) == 2)
        found = {request.body: request.header for _, request in broker.asked[Code.SEND_MESSAGE_V2]}
        assert decode_properties(found[b"0"].properties.encode())["DELAY"] == "9"
        assert (found[b"1"].reconsume_times, found[b"1"].max_reconsume_times) == (3, 2)


async def test_a_batch_is_sent_back_behind_its_last_success() -> None:
    sizes: list[int] = []

    async def handle(messages: list[ReceivedMessage]) -> BatchResult:
        sizes.append(len(messages))
        return BatchResult(ack_index=5, delay_levels={7: -1})

    async with scripted_queues(GROUP) as broker:
        for number in range(8):
            broker.put(b"%d" % number)
        settings = quick_settings(batch_max=8)
        member = PushConsumer(broker.nameserver, batch_listener=handle, settings=settings, group=GROUP)
        member.subscribe("T")
        async with member:
            await until(lambda: sum(sizes) >= 8 and progress(member) == 8)
        found = broker.headers(Code.CONSUMER_SEND_MSG_BACK)
        assert sizes == [8]
        assert [(each.origin_msg_id, each.delay_level) for each in found] == [("ID-6", 0), ("ID-7", -1)]


async def test_many_failures_travel_at_once_but_not_all_of_them() -> None:
    async with scripted_queues(GROUP) as broker:
        broker.codes[Code.CONSUMER_SEND_MSG_BACK] = None
        for number in range(300):
            broker.put(b"%d" % number)
        asked = broker.asked[Code.CONSUMER_SEND_MSG_BACK]
        async with quick_consumer(broker, fail) as member:
            await until(lambda: member.counts.failed == 300)
            await until(lambda: len(asked) == 64)
            broker.codes[Code.CONSUMER_SEND_MSG_BACK] = 0
            for waiting in asked[:64]:
                broker.answer(waiting)
            await until(lambda: progress(member) == 300)
        assert len(asked) == 300, "each once"


async def test_closing_waits_for_what_is_on_its_way_back() -> None:
    async with scripted_queues(GROUP) as broker:
        broker.codes[Code.CONSUMER_SEND_MSG_BACK] = None
        broker.put(b"0")
        member = quick_consumer(broker, fail)
        await member.open()
        await until(lambda: broker.asked[Code.CONSUMER_SEND_MSG_BACK])
        closing = asyncio.ensure_future(member.close())
        await asyncio.wait([closing], timeout=0.3)
        assert not closing.done()
        broker.answer(broker.asked[Code.CONSUMER_SEND_MSG_BACK][0])
        await closing
        assert broker.committed[QUEUE] == 1


async def test_broadcasting_sends_nothing_back_and_goes_on(tmp_path: Any) -> None:
    async with scripted_queues(GROUP) as broker:
        for number in range(3):
            broker.put(b"%d" % number)
        async with quick_consumer(broker, fail, broadcast=True, offsets_folder=tmp_path) as member:
            await until(lambda: progress(member) == 3)
            assert {queue.topic for queue in member.assignment} == {"T"}, "no retry topic"
        assert not broker.asked[Code.CONSUMER_SEND_MSG_BACK] and not broker.asked[Code.SEND_MESSAGE_V2]


# --- from the retry topic -------------------------------------------------------------------------------------------


async def test_a_message_that_comes_again_shows_where_it_came_from() -> None:
    seen: list[ReceivedMessage] = []

    async def remember(message: ReceivedMessage) -> None:
        seen.append(message)

    async with scripted_queues(GROUP) as broker:
        origin = {"RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": "7F00000100002A9F00000000000007D0"}
        broker.put(b"0", topic="%RETRY%billing", attempt=3, properties=origin)
        async with quick_consumer(broker, remember):
            await until(lambda: seen)
        (message,) = seen
        assert (message.topic, message.stored_topic, message.is_retry) == ("T", "%RETRY%billing", True)
        assert (message.delivery_attempt, message.message_id) == (3, "ID-0")
        assert message.origin_message_id == origin["ORIGIN_MESSAGE_ID"]


# --- listeners that take too long -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["function", "coroutine"])
async def test_a_silent_listener_has_failed_and_its_late_word_counts_for_nothing(kind: str) -> None:
    release, ended = threading.Event(), threading.Event()

    def handle(message: ReceivedMessage) -> None:
        if message.body == b"0":
            release.wait(60)
            ended.set()

    async def handle_async(message: ReceivedMessage) -> None:
        if message.body == b"0":
            while not release.is_set():  # noqa: ASYNC110 - the same event for both kinds
                await asyncio.sleep(0.005)
            ended.set()

    async with scripted_queues(GROUP) as broker:
        broker.put(b"0")
        broker.put(b"1")
        listener = handle if kind == "function" else handle_async
        async with quick_consumer(broker, listener) as member:
            await until(lambda: member.counts.ok == 1 and member.heads[0].since_ms)
            member.consume_timeout_ms = 50
            await until(lambda: broker.committed[QUEUE] == 2, "its offset is released")
            (header,) = broker.headers(Code.CONSUMER_SEND_MSG_BACK)
            assert (header.origin_msg_id, header.delay_level) == ("ID-0", 3)
            assert (member.counts.timed_out, member.counts.late, member.counts.ok) == (1, 0, 1)
            release.set()
            await until(lambda: member.heads == [] and ended.is_set())
            await until(lambda: member._share.owned[QUEUE].buffer is not None and member.counts.late == 1)
            assert (member.counts.ok, member.counts.failed) == (1, 0)
            assert len(broker.asked[Code.CONSUMER_SEND_MSG_BACK]) == 1


async def test_the_timeout_may_be_changed_while_a_listener_runs() -> None:
    held = Held()
    async with scripted_queues(GROUP) as broker:
        broker.put(b"0")
        async with quick_consumer(broker, held) as member:
            assert member.consume_timeout_ms == 15 * 60_000
            await until(lambda: member.heads)
            member.consume_timeout_ms = 50
            await until(lambda: broker.asked[Code.CONSUMER_SEND_MSG_BACK])
            with pytest.raises(ConfigError):
                member.consume_timeout_ms = 0
            held.release.set()


async def test_a_silent_listener_in_broadcasting_is_passed(tmp_path: Any) -> None:
    held = Held()
    async with scripted_queues(GROUP) as broker:
        broker.put(b"0")
        changes = {"broadcast": True, "offsets_folder": tmp_path, "consume_timeout_ms": 50}
        async with quick_consumer(broker, held, **changes) as member:
            await until(lambda: progress(member) == 1)
            assert member.counts.timed_out == 1
            held.release.set()
        assert not broker.asked[Code.CONSUMER_SEND_MSG_BACK]


async def test_an_orderly_listener_may_take_as_long_as_it_likes() -> None:
    held = Held()
    async with scripted_queues(GROUP) as broker:
        broker.put(b"0")
        async with quick_consumer(broker, held, orderly=True, consume_timeout_ms=1) as member:
            await until(lambda: member.heads and member.heads[0].since_ms)
            before = len(broker.commits[QUEUE])
            await until(lambda: len(broker.commits[QUEUE]) > before + 3)
            assert progress(member) == 0 and member.counts.timed_out == 0
            held.release.set()
            await until(lambda: progress(member) == 1)
        assert not broker.asked[Code.CONSUMER_SEND_MSG_BACK]
