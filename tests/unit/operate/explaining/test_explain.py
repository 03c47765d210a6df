"""Where a message is and why, from facts alone."""

from __future__ import annotations

import msgspec
import pytest

from pyromq.operate.explaining.explanation import Explanation, MessageState, explain
from pyromq.operate.explaining.facts import Facts, GroupFacts, RedrivenCopy, StoredCopy
from pyromq.operate.explaining.group_story import GroupStory, GroupStoryState, mismatch
from pyromq.wire.json.heartbeat import Subscription
from pyromq.wire.properties import encode_properties
from pyromq.wire.trace import ConsumeBegan, ConsumeCode, ConsumeEnded, TraceRecord

NOW_MS = 1_700_000_000_000
PLACE = StoredCopy(topic="orders", broker="broker-a", queue=1, offset=10, stored_ms=NOW_MS - 60_000)
ALL = Subscription(topic="orders")


def told(**facts: object) -> Explanation:
    found = explain(Facts(topic="orders", message_id="ID", now_ms=NOW_MS, **facts))  # type: ignore[arg-type]
    assert found is not None
    return found


def story(*, trace: tuple[TraceRecord, ...] = (), tags: str = "", **group: object) -> GroupStory:
    facts = GroupFacts(**{"group": "billing", "is_online": True, "subscription": ALL, **group})  # type: ignore[arg-type]
    (found,) = told(visible=(PLACE,), groups=(facts,), trace=trace, tags=tags).groups
    return found


def retry(**fields: object) -> StoredCopy:
    given = {"topic": "%RETRY%billing", "broker": "broker-a", "queue": 0, "offset": 3, "stored_ms": NOW_MS - 5_000}
    return StoredCopy(**{**given, **fields})  # type: ignore[arg-type]


# --- the message itself --------------------------------------------------------------------------------------------


def test_nothing_is_known_of_what_is_nowhere() -> None:
    assert explain(Facts(topic="orders", message_id="ID", now_ms=NOW_MS)) is None


def test_a_stored_message_has_a_place() -> None:
    found = told(visible=(PLACE,), keys=("k",))
    assert (found.state, found.place, found.keys) == (MessageState.STORED, PLACE, ("k",))
    assert "broker-a, queue 1, offset 10" in found.text and "1 min ago" in found.text
    assert "No group has ever consumed" in found.text


def test_a_message_that_is_there_twice_says_so() -> None:
    assert "2 times" in told(visible=(PLACE, PLACE)).text


def test_a_delayed_message_tells_when_it_comes() -> None:
    waiting = StoredCopy(
        topic="SCHEDULE_TOPIC_XXXX", broker="b", queue=2, offset=0, stored_ms=1, due_ms=NOW_MS + 90_000, is_pending=True
    )
    found = told(delayed=(waiting,), groups=(GroupFacts(group="billing"),))
    assert (found.state, found.due_ms, found.groups) == (MessageState.DELAYED, NOW_MS + 90_000, ())
    assert "in 1 min 30 s" in found.text


def test_a_delayed_message_that_never_came_was_called_back() -> None:
    past = StoredCopy(topic="rmq_sys_wheel_timer", broker="b", queue=0, offset=0, stored_ms=1, due_ms=NOW_MS - 1)
    assert told(delayed=(past,)).state is MessageState.RECALLED


def test_a_prepared_message_is_open_or_rolled_back_or_discarded() -> None:
    place = StoredCopy(topic="half", broker="b", queue=0, offset=0, stored_ms=NOW_MS - 3_600_000, is_pending=True)
    again = StoredCopy(topic="half", broker="b", queue=0, offset=9, stored_ms=NOW_MS - 1_000, is_pending=True)
    found = told(prepared=(place, again))
    assert found.state is MessageState.PREPARED and "1 h ago" in found.text
    ended = StoredCopy(topic="half", broker="b", queue=0, offset=0, stored_ms=1)
    assert told(prepared=(ended,)).state is MessageState.ROLLED_BACK
    assert told(prepared=(ended,), discarded=(ended,)).state is MessageState.DISCARDED
    committed = told(prepared=(ended,), visible=(PLACE,))
    assert committed.state is MessageState.STORED and "was committed" in committed.text


# --- groups --------------------------------------------------------------------------------------------------------


def test_a_group_behind_the_message_has_consumed_it() -> None:
    found = story(committed=11)
    assert (found.state, found.text) == (
        GroupStoryState.CONSUMED,
        "Consumed: the group stands at offset 11, just behind it.",
    )
    unknown = story(committed=15, subscription=None, is_online=False)
    assert unknown.state is GroupStoryState.CONSUMED and "may have been passed over" in unknown.text


@pytest.mark.parametrize(
    ("group", "words"),
    [
        ({"committed": 10}, "it is the next in the queue."),
        ({"committed": 9}, "1 message before it in the queue."),
        ({"committed": 4}, "6 messages before it in the queue."),
        ({"committed": 4, "is_online": False}, "no member of the group is connected"),
        ({"committed": None}, "no progress in this queue yet"),
    ],
)
def test_a_group_that_is_not_there_yet_waits(group: dict[str, object], words: str) -> None:
    found = story(**group)
    assert found.state is GroupStoryState.WAITING and words in found.text


def test_a_failed_message_waits_for_its_next_attempt() -> None:
    waiting = retry(topic="SCHEDULE_TOPIC_XXXX", attempt=3, due_ms=NOW_MS + 30_000, is_pending=True)
    found = story(committed=11, waiting=(retry(attempt=2, due_ms=1), waiting))
    assert (found.state, found.failures, found.next_attempt_ms) == (GroupStoryState.RETRYING, 3, NOW_MS + 30_000)
    assert found.text.startswith("Failed 3 times; comes again at") and "in 30 s" in found.text


def test_an_attempt_that_is_ready_waits_for_a_member() -> None:
    found = story(committed=11, retries=(retry(attempt=1, committed=3),), is_online=False)
    assert (found.state, found.failures) == (GroupStoryState.RETRYING, 1)
    assert "ready since" in found.text and "no member" in found.text


def test_a_later_attempt_may_have_done_it() -> None:
    found = story(committed=11, retries=(retry(attempt=1, committed=4), retry(offset=3, attempt=2, committed=4)))
    assert (found.state, found.failures) == (GroupStoryState.CONSUMED, 2)


def test_a_dead_letter_is_the_end() -> None:
    dead = retry(topic="%DLQ%billing", attempt=17)
    found = story(committed=11, retries=(retry(attempt=16, committed=4),), dead=(dead,))
    assert (found.state, found.failures) == (GroupStoryState.DEAD, 17)
    assert "%DLQ%billing" in found.text and "17 deliveries" in found.text


def test_a_filter_passes_over_what_it_does_not_want() -> None:
    tags = Subscription(topic="orders", sub_string="new || paid")
    found = story(committed=11, subscription=tags, tags="lost")
    assert found.state is GroupStoryState.FILTERED and found.text.startswith("Passed over") and "'lost'" in found.text
    assert story(committed=3, subscription=tags, tags="lost").text.startswith("Will be passed over")
    assert story(committed=11, subscription=tags, tags="paid").state is GroupStoryState.CONSUMED


def test_why_a_subscription_does_not_want_a_message() -> None:
    sql = Subscription(topic="orders", sub_string="price > 10", expression_type="SQL92")
    assert mismatch(sql, "", encode_properties({"price": "11"})) == ""
    assert "price > 10" in mismatch(sql, "", encode_properties({"price": "9"}))
    broken = Subscription(topic="orders", sub_string="price >", expression_type="SQL92")
    assert mismatch(broken, "", b"") == ""
    assert "no tag" in mismatch(Subscription(topic="orders", sub_string="new"), "", b"")
    assert mismatch(None, "", b"") == mismatch(ALL, "x", b"") == ""


def test_the_trace_knows_when() -> None:
    began = ConsumeBegan(time_ms=NOW_MS - 9, group="billing", request_id="R", message_id="ID", delivery_attempt=1)
    ended = ConsumeEnded(request_id="R", message_id="ID", cost_ms=4, time_ms=NOW_MS - 5)  # old clients tell no group
    found = story(committed=11, trace=(began, ended))
    assert (found.state, found.consumed_ms, found.failures) == (GroupStoryState.CONSUMED, NOW_MS - 5, 1)
    assert "took 4 ms" in found.text and "failed once" in found.text
    dead = story(committed=11, trace=(began, ended), dead=(retry(),))
    assert "dead letter of it is there as well" in dead.text


def test_a_listener_that_has_not_returned_is_told() -> None:
    began = ConsumeBegan(time_ms=NOW_MS - 9, group="billing", request_id="R", message_id="ID")
    assert "has not returned" in story(committed=10, trace=(began,)).text
    failed = ConsumeEnded(
        request_id="R", message_id="ID", is_success=False, code=ConsumeCode.FAILED, group="billing", time_ms=1
    )
    assert story(committed=11, trace=(failed,)).consumed_ms == 0


def test_the_trace_says_which_members_consumed_and_how_often() -> None:
    def end(request: str, host: str) -> ConsumeEnded:
        return ConsumeEnded(
            request_id=request, message_id="ID", group="billing", time_ms=NOW_MS, cost_ms=7, client_host=host
        )

    once = story(committed=11, trace=(end("R", "10.0.0.1:5"),))
    assert "Consumed by 10.0.0.1:5, at " in once.text and once.members == ("10.0.0.1:5",)
    twice = story(committed=11, trace=(end("R", "10.0.0.1:5"), end("S", "10.0.0.2:6")))
    assert "Consumed twice, by 10.0.0.1:5 and 10.0.0.2:6, the last time at " in twice.text
    assert (twice.deliveries, twice.members) == (2, ("10.0.0.1:5", "10.0.0.2:6"))
    assert "Consumed twice, by 10.0.0.1:5," in story(trace=(end("R", "10.0.0.1:5"), end("S", "10.0.0.1:5"))).text


def test_a_dead_letter_that_was_redriven_says_so() -> None:
    copy = StoredCopy(topic="orders", broker="broker-a", queue=2, offset=44, stored_ms=NOW_MS - 1_000)
    facts = GroupFacts(group="billing", committed=44)
    redriven = RedrivenCopy(message_id="COPY", place=copy, group=facts)
    found = story(committed=11, dead=(retry(attempt=3),), redriven=(redriven,))
    assert (found.state, found.redriven_ms) == (GroupStoryState.REDRIVEN, NOW_MS - 1_000)
    assert "was redriven at " in found.text and "orders, broker-a, queue 2, offset 44" in found.text
    assert found.copy_story is not None and found.copy_story.state is GroupStoryState.WAITING
    done = msgspec.structs.replace(redriven, group=msgspec.structs.replace(facts, committed=45))
    consumed = story(committed=11, dead=(retry(attempt=3),), redriven=(done,))
    assert consumed.state is GroupStoryState.CONSUMED, "what its letter became is consumed, so the message is"
    assert "That copy: Consumed" in consumed.text and consumed.copy_id == "COPY"
