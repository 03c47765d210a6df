"""The pure parts of administration: handles, levels, ends of transactions, ids of redriven letters, heads of queues."""

from __future__ import annotations

import msgspec
import pytest

from pyromq.client.admin.blocked_queues import ClientState, head_of, read_client_state
from pyromq.client.admin.dead_letters import redriven_id
from pyromq.client.admin.delays import LEVELS, due_of, last_copies, make_handle, parse_levels, read_handle
from pyromq.client.admin.examining import judge_broker
from pyromq.client.admin.offsets import OffsetMove
from pyromq.client.admin.traces import in_order
from pyromq.client.admin.transactions import ended_offsets, latest_of_each
from pyromq.client.consumer.base.running_info import HeadOfLine, QueueInfo
from pyromq.client.consumer.rules.buffer_state import Stage
from pyromq.errors import ConfigError
from pyromq.model.queue import QueueId
from pyromq.wire.json.bodies import QueueProgress
from pyromq.wire.trace import ConsumeBegan, ConsumeEnded, Published
from tests.unit.client.stored import received

QUEUE = QueueId("orders", "broker-a", 3)


def test_a_recall_handle_is_that_of_rocketmq() -> None:
    handle = "djEgc2hvcCBicm9rZXItYSAxNzk0NzI2ODM5MDAxIDdGMDAwMDAxNkU0OTMxQzIwNjQyNDk5RDM0MDQwMDAz"  # 5.5.0 gave it
    parts = ("shop", "broker-a", 1_794_726_839_001, "7F0000016E4931C20642499D34040003")
    assert read_handle(handle) == parts
    assert make_handle(*parts) == handle


@pytest.mark.parametrize("text", ["", "nonsense", "djIgYSBiIDEgYw==", "djEgYSBi", "é"])
def test_other_text_is_no_handle(text: str) -> None:
    with pytest.raises(ConfigError, match="no recall handle"):
        read_handle(text)


def test_delay_levels_are_read() -> None:
    assert parse_levels("50ms 1s 2m 3h 4d") == (50, 1_000, 120_000, 10_800_000, 345_600_000)
    assert len(parse_levels(LEVELS)) == 18
    with pytest.raises(ConfigError):
        parse_levels("1s soon")


def test_timers_copy_messages_and_the_last_copy_counts() -> None:
    first = received(unique_key="A", offset=1, REAL_TOPIC="orders", TIMER_OUT_MS="500")
    again = received(unique_key="A", offset=5, REAL_TOPIC="orders", TIMER_OUT_MS="500")
    other = received(unique_key="A", offset=6, REAL_TOPIC="bills")
    assert last_copies([first, again, other]) == [again, other]
    assert (due_of(first), due_of(other)) == (500, 0)


def test_op_records_name_offsets() -> None:
    assert ended_offsets(b"12,15,") == {12, 15}
    assert ended_offsets(b"7") == {7}
    assert ended_offsets(b"") == ended_offsets(b"junk,") == set()


def test_a_check_appends_a_half_message_again() -> None:
    place, copy = received(unique_key="A", offset=1), received(unique_key="A", offset=4)
    elsewhere = received(unique_key="A", offset=2, broker="broker-b")
    assert latest_of_each([place, elsewhere, copy]) == [copy, elsewhere]


def test_a_letter_becomes_the_same_message_every_time() -> None:
    assert redriven_id("0A00") == redriven_id("0A00") != redriven_id("0A01")
    assert len(redriven_id("0A00")) == 32 and redriven_id("0A00").isupper()


def test_a_move_tells_what_comes_again_or_is_passed_over() -> None:
    assert OffsetMove(QUEUE, 10, 4).difference == -6
    assert OffsetMove(QUEUE, None, 4).difference == 4


def test_traces_are_told_in_order_and_once() -> None:
    sent = Published(time_ms=1, group="p", topic="orders", message_id="ID")
    began = ConsumeBegan(time_ms=5, group="g", request_id="R", message_id="ID")
    ended = ConsumeEnded(request_id="R", message_id="ID", cost_ms=0)  # an old client: no time
    later = ConsumeBegan(time_ms=9, group="g", request_id="S", message_id="ID")
    assert in_order([later, ended, sent, began, sent]) == [sent, began, ended, later]


# --- heads ---------------------------------------------------------------------------------------------------------


def test_a_queue_that_is_not_behind_has_no_head() -> None:
    head = head_of(QUEUE, QueueProgress(broker_offset=4, consumer_offset=4), [], None, 100)
    assert (head.lag, head.offset, head.client_id) == (0, None, "")


def test_the_broker_knows_the_message_and_the_member_what_it_does() -> None:
    progress, message = QueueProgress(broker_offset=9, consumer_offset=7), received(attempt=2, KEYS="a b")
    silent = ClientState(client_id="java", queues={QUEUE: QueueInfo()})
    head = head_of(QUEUE, progress, [silent], message, 1_022)
    assert (head.client_id, head.offset, head.keys, head.age_ms, head.attempt) == ("java", 7, "a b", 1_000, 2)
    assert (head.lag, head.stage, head.stack) == (2, "", "")
    told = HeadOfLine(
        topic="orders", broker_name="broker-a", queue_id=3, offset=7, message_id="ID", attempt=4,
        stage=Stage.CONSUMING, since_ms=5, stack="in listener",
    )  # fmt: skip
    telling = msgspec.structs.replace(silent, heads=(told,))
    head = head_of(QUEUE, progress, [telling], message, 1_022)
    assert (head.attempt, head.stage, head.since_ms, head.stack) == (4, "consuming", 5, "in listener")


def test_the_answer_of_a_java_client_is_read() -> None:
    body = (
        b'{"jstack":null,"mqPopTable":{},"mqTable":{{"brokerName":"broker-a","queueId":3,"topic":"orders"}:'
        b'{"cachedMsgCount":2,"cachedMsgMaxOffset":8,"cachedMsgMinOffset":7,"cachedMsgSizeInMiB":0,"commitOffset":7,'
        b'"droped":false,"lastConsumeTimestamp":1,"lastLockTimestamp":1,"lastPullTimestamp":1,"locked":false,'
        b'"transactionMsgCount":0,"transactionMsgMaxOffset":0,"transactionMsgMinOffset":0,"tryUnlockTimes":0}},'
        b'"properties":{"a":"b"},"statusTable":{},"subscriptionSet":[],"userConsumerInfo":{}}'
    )
    state = read_client_state("java", body)
    assert state.queues[QUEUE].cached_msg_min_offset == 7 and state.heads == ()


# --- health --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ratio", "severity"), [("0.10", "ok"), ("0.80", "warning"), ("0.9", "bad"), ("", "ok")])
def test_a_broker_is_judged_by_its_disk(ratio: str, severity: str) -> None:
    (finding,) = judge_broker("broker a", {"commitLogDiskRatio": ratio})
    assert finding.severity == severity


def test_a_broker_whose_queues_lag_behind_its_log_is_worth_a_word() -> None:
    (finding,) = judge_broker("broker a", {"commitLogDiskRatio": "0.1", "dispatchBehindBytes": str(128 << 20)})
    assert finding.severity == "warning" and "128 MiB" in finding.text
