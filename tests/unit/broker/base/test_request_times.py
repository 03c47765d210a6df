"""Times and ends of requests."""

from __future__ import annotations

from typing import Any

from pyromq.broker.base.request_times import HELD, NAMES_MAX, RequestTimes
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.received import Received

SEND, PULL = RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE


class Header:
    def __init__(self, topic: str = "", consumer_group: str = "") -> None:
        self.topic, self.consumer_group = topic, consumer_group


def request(code: int, header: Any = None) -> Received[Any]:
    return Received(code=code, header=header, correlation_id=1)


def counts(times: RequestTimes) -> dict[tuple[int, int, bool], int]:
    return {key: histogram.count for key, histogram in times.latency.items()}


def test_requests_of_a_turn_follow_each_other() -> None:
    times = RequestTimes()
    times.began_s = 10.0
    times.done(PULL, 10.002)
    times.done(PULL, 10.5)
    assert times.latency[PULL, 0, False].now().total == 500


def test_a_pull_that_is_held_is_told_when_it_is_answered() -> None:
    times = RequestTimes()
    times.outcome = HELD
    times.done(PULL, 1.0)
    assert counts(times) == {}
    times.note(PULL, ResponseCode.SUCCESS, 15_000, held=True)
    times.done(PULL, 2.0)
    assert counts(times) == {(PULL, 0, True): 1, (PULL, 0, False): 1}


def test_a_group_commit_is_one_observation_for_all_its_sends() -> None:
    times = RequestTimes()
    times.answered(SEND, 64, 3)
    assert counts(times) == {(SEND, 0, False): 64} and times.latency[SEND, 0, False].now().total == 192


def test_refusals_are_counted_by_code_topic_and_group() -> None:
    times = RequestTimes()
    times.refuse(request(SEND, Header("orders")), ResponseCode.SYSTEM_BUSY)
    times.refuse(request(SEND, Header("orders")), ResponseCode.NO_PERMISSION, known=False)
    times.refuse(request(PULL, Header("orders", "books")), ResponseCode.NO_PERMISSION)
    times.done(PULL, 0.0)
    assert times.refused == {(SEND, 2): 1, (SEND, 16): 1, (PULL, 16): 1}
    assert times.refused_sends == {("orders", 2): 1, ("_unknown", 16): 1}
    assert times.refused_pulls == {("books", "orders", 16): 1}
    assert counts(times)[PULL, 16, False] == 1


def test_creations_have_a_histogram_of_their_own() -> None:
    times = RequestTimes()
    times.done(RequestCode.UPDATE_AND_CREATE_TOPIC, 0.001)
    times.refuse(request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP), ResponseCode.INVALID_PARAMETER)
    times.done(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, 0.002)
    assert {key: histogram.count for key, histogram in times.creations.items()} == {
        ("rocketmq_topic_create_execution_time", True): 1,
        ("rocketmq_consumer_group_create_execution_time", False): 1,
    }


def test_strangers_cannot_make_it_grow() -> None:
    times = RequestTimes()
    for number in range(NAMES_MAX + 1_000):
        times.refuse(request(100_000 + number), ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        times.done(100_000 + number, 0.0)
        times.refuse(request(SEND, Header(f"t{number}")), ResponseCode.TOPIC_NOT_EXIST)
    assert len(times.latency) <= 2 and len(times.refused) == 2
    assert len(times.refused_sends) <= NAMES_MAX + 1
    assert times.refused_sends["_unknown", ResponseCode.TOPIC_NOT_EXIST] >= 1_000


def test_a_refusal_is_not_told_of_the_next_request() -> None:
    """Strangers are refused before the turn goes on; sends and their like end with the group commit, not here."""
    times = RequestTimes()
    times.refuse(request(PULL, Header("orders", "books")), ResponseCode.NO_PERMISSION, known=False)
    times.refuse(request(RequestCode.END_TRANSACTION), ResponseCode.SYSTEM_ERROR)
    times.refuse(request(RequestCode.CONSUMER_SEND_MSG_BACK), ResponseCode.SYSTEM_ERROR)
    times.refuse(request(RequestCode.RECALL_MESSAGE), ResponseCode.SYSTEM_ERROR, in_turn=False)
    times.done(RequestCode.HEART_BEAT, 0.0)
    assert counts(times) == {
        (RequestCode.RECALL_MESSAGE, ResponseCode.SYSTEM_ERROR, False): 1,
        (PULL, ResponseCode.NO_PERMISSION, False): 1,
        (RequestCode.END_TRANSACTION, ResponseCode.SYSTEM_ERROR, False): 1,
        (RequestCode.CONSUMER_SEND_MSG_BACK, ResponseCode.SYSTEM_ERROR, False): 1,
        (RequestCode.HEART_BEAT, ResponseCode.SUCCESS, False): 1,
    }


def test_names_that_no_topic_can_have_are_counted_together() -> None:
    times = RequestTimes()
    for number in range(5):
        times.refuse(request(SEND, Header("x" * 300 + str(number))), ResponseCode.INVALID_PARAMETER)
        times.refuse(request(PULL, Header("t", "x" * 300 + str(number))), ResponseCode.INVALID_PARAMETER)
    assert list(times.refused_sends.values()) == [5] and list(times.refused_pulls.values()) == [5]
