"""The message that a queue stands at, and what its member does with it."""

from __future__ import annotations

import msgspec

from pyromq.client.consumer.base.running_info import HeadOfLine, QueueInfo
from pyromq.client.consumer.rules.buffer_state import Stage
from pyromq.model.queue import QueueId
from pyromq.operate.consumers.blocked_queues import head_of
from pyromq.operate.consumers.members import ClientState, read_client_state
from pyromq.wire.json.bodies import QueueProgress
from tests.unit.client.stored import received

QUEUE = QueueId("orders", "broker-a", 3)


def test_a_queue_that_is_not_behind_has_no_head() -> None:
    head = head_of(QUEUE, QueueProgress(broker_offset=4, consumer_offset=4), [], None, 100)
    assert (head.lag, head.offset, head.client_id) == (0, None, "")


def test_the_broker_knows_the_message_and_the_member_what_it_does() -> None:
    progress, message = QueueProgress(broker_offset=9, consumer_offset=7), received(attempt=2, KEYS="a b")
    silent = ClientState(client_id="java", queues={QUEUE: QueueInfo()})
    head = head_of(QUEUE, progress, [silent], message, 1_022)
    assert (head.client_id, head.offset, head.keys, head.age_ms, head.attempt) == ("java", 7, ("a", "b"), 1_000, 2)
    assert (head.lag, head.stage, head.stack) == (2, "", "")
    told = HeadOfLine(
        topic="orders", broker_name="broker-a", queue_id=3, offset=7, message_id="ID", attempt=4,
        stage=Stage.CONSUMING, since_ms=5, stack="in listener",
    )  # fmt: skip
    telling = msgspec.structs.replace(silent, heads=(told,))
    head = head_of(QUEUE, progress, [telling], message, 1_022)
    assert (head.attempt, head.stage, head.since_ms, head.stack) == (4, "consuming", 5, "in listener")


def test_the_response_of_a_java_client_is_read() -> None:
    body = (
        b'{"jstack":null,"mqPopTable":{},"mqTable":{{"brokerName":"broker-a","queueId":3,"topic":"orders"}:'
        b'{"cachedMsgCount":2,"cachedMsgMaxOffset":8,"cachedMsgMinOffset":7,"cachedMsgSizeInMiB":0,"commitOffset":7,'
        b'"droped":false,"lastConsumeTimestamp":1,"lastLockTimestamp":1,"lastPullTimestamp":1,"locked":false,'
        b'"transactionMsgCount":0,"transactionMsgMaxOffset":0,"transactionMsgMinOffset":0,"tryUnlockTimes":0}},'
        b'"properties":{"a":"b"},"statusTable":{},"subscriptionSet":[],"userConsumerInfo":{}}'
    )
    state = read_client_state("java", body)
    assert state.queues[QUEUE].cached_msg_min_offset == 7 and state.heads == ()
