"""Where a message waits for its time."""

from __future__ import annotations

from base64 import urlsafe_b64decode

import pytest

from pyromq.broker.base.refusals import RefusedError
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.delays.delays import Delays, Detour, recall_handle
from pyromq.broker.sending.retry_policy import attempts_allowed, retry_delay_ms
from pyromq.model.subscription_policy import SubscriptionPolicy
from pyromq.model.topic import GroupConfig
from pyromq.testing import ManualClock
from pyromq.wire.properties import decode_properties

NOW = 1_700_000_000_000
DAY_MS = 86_400_000


def place(text: str) -> Detour:
    return Delays(BrokerSettings(), ManualClock(NOW)).place("orders", 3, text)


def properties(found: Detour) -> dict[str, str]:
    return decode_properties(found.properties.encode())


def test_a_message_without_delay_goes_where_it_belongs() -> None:
    assert place("TAGS\x01a\x02") == Detour("orders", 3, "TAGS\x01a\x02")


@pytest.mark.parametrize(("level", "queue_id"), [(1, 0), (18, 17), (19, 17), (2_000_000_000, 17)])
def test_a_level_is_a_queue_and_the_last_one_takes_what_is_above(level: int, queue_id: int) -> None:
    found = place(f"TAGS\x01a\x02DELAY\x01{level}\x02")
    assert (found.topic, found.queue_id) == ("SCHEDULE_TOPIC_XXXX", queue_id)
    home = {"TAGS": "a", "DELAY": str(queue_id + 1), "REAL_TOPIC": "orders", "REAL_QID": "3"}
    assert properties(found) == home


@pytest.mark.parametrize("level", ["0", "-1", "soon"])
def test_a_level_that_is_none_delays_nothing(level: str) -> None:
    assert place(f"DELAY\x01{level}\x02").topic == "orders"


@pytest.mark.parametrize(
    ("text", "due_ms"),
    [
        ("TIMER_DELAY_SEC\x015\x02", NOW + 5_000),
        ("TIMER_DELAY_MS\x01250\x02", NOW + 250),
        (f"TIMER_DELIVER_MS\x01{NOW + 40 * DAY_MS}\x02", NOW + 40 * DAY_MS),
        ("TIMER_DELAY_SEC\x015\x02TIMER_DELAY_MS\x017\x02", NOW + 5_000),
    ],
)
def test_a_time_is_kept_to_the_millisecond(text: str, due_ms: int) -> None:
    found = place(text)
    assert (found.topic, found.queue_id) == ("rmq_sys_wheel_timer", 0)
    assert properties(found)["TIMER_OUT_MS"] == str(due_ms)
    assert (properties(found)["REAL_TOPIC"], properties(found)["REAL_QID"]) == ("orders", "3")


def test_a_time_in_the_past_is_now() -> None:
    for text in (f"TIMER_DELIVER_MS\x01{NOW}\x02", "TIMER_DELAY_MS\x01-5\x02", "TIMER_DELIVER_MS\x010\x02"):
        assert place(text) == Detour("orders", 3, text)


def test_a_message_that_has_waited_is_not_delayed_again() -> None:
    text = f"TIMER_DELAY_SEC\x015\x02TIMER_OUT_MS\x01{NOW}\x02"
    assert place(text) == Detour("orders", 3, text)


def test_a_level_wins_over_a_time() -> None:
    found = place("TIMER_DELAY_SEC\x015\x02DELAY\x012\x02")
    assert (found.topic, found.queue_id) == ("SCHEDULE_TOPIC_XXXX", 1)
    assert "TIMER_DELAY_SEC" not in properties(found)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("TIMER_DELAY_SEC\x01soon\x02", "not a whole number"),
        (f"TIMER_DELIVER_MS\x01{NOW + 41 * DAY_MS}\x02", "at most 40 days are allowed"),
        (f"TIMER_DELIVER_MS\x01{NOW}\x02TIMER_DEL_UNIQKEY\x01orders+U1\x02", "too late to cancel"),
    ],
)
def test_times_that_cannot_be_are_refused(text: str, said: str) -> None:
    with pytest.raises(RefusedError, match=said):
        place(text)


def test_a_retry_of_a_group_with_its_own_ladder_forgets_earlier_delays() -> None:
    text = "DELAY\x013\x02TIMER_DELIVER_MS\x015\x02TIMER_OUT_MS\x015\x02REAL_TOPIC\x01x\x02KEYS\x01k\x02"
    found = Delays(BrokerSettings(), ManualClock(NOW)).place_after("%RETRY%g", 0, text, 700)
    assert found.topic == "rmq_sys_wheel_timer"
    kept = {"KEYS": "k", "TIMER_OUT_MS": str(NOW + 700), "REAL_TOPIC": "%RETRY%g", "REAL_QID": "0"}
    assert properties(found) == kept


@pytest.mark.parametrize(("due_ms", "told_ms"), [(NOW + 5_000, NOW + 5_001), (NOW + 5_999, NOW + 5_999)])
def test_the_handle_names_a_moment_in_the_second_of_the_message(due_ms: int, told_ms: int) -> None:
    handle = recall_handle(place(f"UNIQ_KEY\x01U1\x02TIMER_DELIVER_MS\x01{due_ms}\x02"), "broker-a")
    assert handle and urlsafe_b64decode(handle).decode() == f"v1 orders broker-a {told_ms} U1"
    assert recall_handle(place("UNIQ_KEY\x01U1\x02"), "broker-a") is None


@pytest.mark.parametrize(
    ("policy", "delays"),
    [
        ({"type": "CUSTOMIZED"}, [None, None]),
        ({"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [100, 700]}}, [100, 700, 700]),
        ({"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": []}}, [None]),
        ({"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": ["soon"]}}, [None]),
        ({"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 10, "max": 50}}, [10, 20, 40, 50]),
        ({"type": "EXPONENTIAL"}, [None]),
        ({}, [None]),
    ],
)
def test_ladders_of_groups(policy: dict[str, object], delays: list[int | None]) -> None:
    assert [retry_delay_ms(policy, attempt) for attempt in range(len(delays))] == delays


@pytest.mark.parametrize(
    ("attributes", "policy", "allowed"),
    [
        ({}, SubscriptionPolicy.WARN, 3),
        ({}, SubscriptionPolicy.REFUSE, 5),
        ({"subscription.policy": "refuse"}, SubscriptionPolicy.WARN, 5),
        ({"subscription.policy": "warn"}, SubscriptionPolicy.REFUSE, 3),
        ({"subscription.policy": "nonsense"}, SubscriptionPolicy.REFUSE, 5),
    ],
)
def test_where_members_must_agree_the_limit_of_the_group_counts(
    attributes: dict[str, str], policy: SubscriptionPolicy, allowed: int
) -> None:
    group = GroupConfig(group_name="readers", retry_max_times=5, attributes=attributes)
    assert attempts_allowed(group, 3, 400, policy) == allowed
