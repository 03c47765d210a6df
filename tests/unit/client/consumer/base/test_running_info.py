"""What a consumer tells about itself."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

import pytest

from pyromq.client.consumer.base.consume_stats import ConsumeStats, TopicRates
from pyromq.client.consumer.base.owned_queue import OwnedQueue
from pyromq.client.consumer.base.running_info import (
    HeadOfLine,
    PopQueueInfo,
    QueueInfo,
    RunningInfo,
    encode_running_info,
    flow_counts,
    heads_of_line,
    queue_info,
)
from pyromq.client.consumer.rules.buffer_state import Stage
from pyromq.client.consumer.rules.flow_control import Hold
from pyromq.client.consumer.rules.pull_state import PullSettings
from pyromq.client.consumer.rules.subscription import subscribe_tags
from pyromq.client.core.stack_dump import dump_stacks, task_text, thread_text
from pyromq.errors import RemoteProtocolError
from pyromq.model.queue import QueueId
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire.json import java_json
from pyromq.wire.json.heartbeat import ConsumeType
from tests.unit.client.messages import FakeMessage

QUEUE = QueueId("orders", "broker-a", 0)
KEY = {"brokerName": "broker-a", "queueId": 0, "topic": "orders"}


def info(**more: object) -> RunningInfo:
    return RunningInfo(
        name_servers="127.0.0.1:9876",
        consume_type=ConsumeType.CONSUME_PASSIVELY,
        orderly=True,
        threads=20,
        client_version="V5_3_3",
        started_ms=1_700_000_000_000,
        **more,  # type: ignore[arg-type]
    )


def test_properties_are_texts_under_rocketmqs_names() -> None:
    body = java_json.parse(encode_running_info(info(options={"pullBatchSize": "32"})))
    assert body["properties"] == {
        "PROP_NAMESERVER_ADDR": "127.0.0.1:9876",
        "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
        "PROP_CONSUMEORDERLY": "true",
        "PROP_THREADPOOL_CORE_SIZE": "20",
        "PROP_CLIENT_VERSION": "V5_3_3",
        "PROP_CONSUMER_START_TIMESTAMP": "1700000000000",
        "pullBatchSize": "32",
    }
    assert "jstack" not in body


def test_tables_have_queues_as_keys_and_rocketmqs_fields() -> None:
    body = java_json.parse(
        encode_running_info(
            info(
                subscriptions=[subscribe_tags("orders", "TagA", 5)],
                queues={QUEUE: QueueInfo(commit_offset=7, dropped=True)},
                pop_queues={QUEUE: PopQueueInfo(wait_ack_count=3)},
                rates={"orders": TopicRates(pull_rt=1.5, consume_failed_messages=2)},
                user_info={"k": "v"},
                stacks="thread",
            )
        )
    )
    assert set(body["mqTable"][java_json.ObjectKey(KEY)]) == {
        *("commitOffset", "cachedMsgMinOffset", "cachedMsgMaxOffset", "cachedMsgCount", "cachedMsgSizeInMiB"),
        *("transactionMsgMinOffset", "transactionMsgMaxOffset", "transactionMsgCount", "locked", "tryUnlockTimes"),
        *("lastLockTimestamp", "droped", "lastPullTimestamp", "lastConsumeTimestamp"),
    }
    assert body["mqTable"][java_json.ObjectKey(KEY)]["droped"] is True
    assert body["mqPopTable"] == {java_json.ObjectKey(KEY): {"waitAckCount": 3, "droped": False, "lastPopTimestamp": 0}}
    assert body["statusTable"] == {
        "orders": {
            **{"pullRT": 1.5, "pullTPS": 0.0, "consumeRT": 0.0, "consumeOKTPS": 0.0, "consumeFailedTPS": 0.0},
            "consumeFailedMsgs": 2,
        }
    }
    assert body["subscriptionSet"][0]["tagsSet"] == ["TagA"]
    assert (body["userConsumerInfo"], body["jstack"]) == ({"k": "v"}, "thread")


def test_a_queue_is_described_from_its_buffer_in_wall_clock_time() -> None:
    clock = ManualClock(now_ms=1_000_000)
    clock.advance_ms(50)
    owned = OwnedQueue(QUEUE, 5, clock, PullSettings(), ConsumeStats(clock).of("orders"))
    clock.advance_ms(50)
    owned.buffer.add(cast(Any, [FakeMessage(5, size_bytes=3 << 20), FakeMessage(9)]))
    owned.take(1)
    owned.lock.granted()
    found = queue_info(
        owned,
        commit_offset=owned.buffer.commit_offset(),
        orderly=True,
        wall_minus_monotonic_ms=clock.now_ms() - clock.monotonic_ms(),
    )
    assert found == QueueInfo(
        commit_offset=5,
        cached_msg_min_offset=5,
        cached_msg_max_offset=9,
        cached_msg_count=2,
        cached_msg_size_in_mib=3,
        transaction_msg_min_offset=5,
        transaction_msg_max_offset=5,
        transaction_msg_count=1,
        locked=True,
        last_lock_timestamp=1_000_100,
        last_pull_timestamp=1_000_050,
        last_consume_timestamp=1_000_100,
    )


def test_stacks_of_all_threads_and_tasks_are_told_by_name() -> None:
    waiting, end = threading.Event(), threading.Event()

    def listener_at_work() -> None:
        waiting.set()
        end.wait()

    async def pull_loop() -> None:
        await asyncio.Event().wait()

    async def main() -> str:
        task = asyncio.create_task(pull_loop(), name="pull orders/0")
        await asyncio.sleep(0)
        text = dump_stacks(asyncio.get_running_loop())
        task.cancel()
        return text

    thread = threading.Thread(target=listener_at_work, name="listener-7", daemon=True)
    thread.start()
    waiting.wait()
    try:
        text = asyncio.run(main())
    finally:
        end.set()
        thread.join()
    assert 'thread "MainThread"' in text
    assert 'thread "listener-7"' in text and "listener_at_work" in text
    assert 'task "pull orders/0"' in text and "pull_loop" in text


def test_stacks_can_be_told_without_a_loop() -> None:
    assert 'thread "MainThread"' in dump_stacks()


# --- head of line ---------------------------------------------------------------------------------------------------


def head(queue: int, **more: Any) -> HeadOfLine:
    return HeadOfLine(topic="orders", broker_name="room@b", queue_id=queue, offset=7, message_id="ID", **more)


def test_heads_and_flow_counts_travel_as_properties_that_java_can_read() -> None:
    waiting = head(0, keys=("k1", "k2"), age_ms=5, attempt=3)
    running = head(1, stage=Stage.CONSUMING, since_ms=1_700_000_000_000, stack='line "1"\nline 2 \u00e9')
    flow = {Hold.SPAN: 3, Hold.MESSAGES: 0}
    encoded = encode_running_info(info(heads=[waiting, running], flow=flow))
    properties = java_json.parse(encoded)["properties"]
    assert all(isinstance(text, str) for text in properties.values())
    assert '"keys":["k1","k2"]' in properties["pyromq.head.orders@room@b@0"]
    assert properties["pyromq.flow.SPAN"] == "3"
    assert heads_of_line(encoded) == [running, waiting], "the longest running listener first"
    assert flow_counts(encoded) == flow


def test_what_is_no_running_info_is_refused() -> None:
    for body in (b"[]", b'{"properties":[]}', b'{"properties":{"pyromq.head.x":"{}"}}', b'{"properties":{"a":1}}'):
        with pytest.raises(RemoteProtocolError):
            heads_of_line(body)


def test_a_task_is_shown_through_everything_that_it_awaits() -> None:
    async def innermost() -> None:
        await asyncio.Event().wait()

    async def outer() -> None:
        await innermost()

    async def main() -> str:
        task = asyncio.create_task(outer(), name="listener")
        await asyncio.sleep(0)
        text = task_text(task)
        task.cancel()
        return text

    text = asyncio.run(main())
    assert text.index("in outer") < text.index("in innermost") < text.index("in wait")


def test_a_thread_that_has_ended_has_no_stack() -> None:
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    assert thread.ident is not None and thread_text(thread.ident) is None
    assert "test_a_thread_that_has_ended" in (thread_text(threading.get_ident()) or "")
