"""What is sent again, decided without a broker."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import msgspec
import pytest
from pyspark.errors import PySparkException

from pyromq.client.admin.dead_letters import REDRIVEN_FROM, redriven_id
from pyromq.client.core.errors import TopicNotFoundError
from pyromq.model import property_names as names
from pyromq.pipeline.jobs.common.errors import FormatMissingError, JobFailedError
from pyromq.pipeline.jobs.common.patching import PatchInput
from pyromq.pipeline.jobs.common.queries import drain, drain_all, offsets_read, rows_read, translated
from pyromq.pipeline.jobs.resending.outgoing import Outgoing, Resent, SendOutcome, outgoing, source_of
from pyromq.pipeline.jobs.resending.pacing import CHUNK_MAX
from pyromq.pipeline.jobs.resending.redrive import CanaryVerdict, letter_to_send, summary
from pyromq.pipeline.jobs.resending.replay import replayed_id
from pyromq.pipeline.jobs.resending.sending import PacedSender
from pyromq.testing import ManualClock


def row(**more: Any) -> dict[str, Any]:
    given = {
        "topic": "%DLQ%g", "message_id": "M", "offset_message_id": "O", "keys": "k", "tags": "t", "flag": 7,
        "body": b"x", "properties": {
            names.KEYS: "k", names.TAGS: "t", names.UNIQUE_KEY: "M", names.RETRY_TOPIC: "orders",
            names.SHARDING_KEY: "s", "RECONSUME_TIME": "3", "colour": "green",
        },
    }  # fmt: skip
    return {**given, **more}


def test_a_message_keeps_what_is_the_applications_and_gets_a_derived_id() -> None:
    made = outgoing(row(), "orders", "ID", [("MARK", "1")])
    assert isinstance(made, Outgoing)
    assert dict(made.properties) == {
        names.UNIQUE_KEY: "ID", "MARK": "1", names.KEYS: "k", names.TAGS: "t", names.SHARDING_KEY: "s",
        "colour": "green",
    }  # fmt: skip
    assert made.sharding_key == "s" and made.flag == 7


def test_a_mark_of_an_earlier_time_is_replaced() -> None:
    properties = {"MARK": "old"}
    made = outgoing(row(properties=properties), "orders", "ID", [("MARK", "new")])
    assert isinstance(made, Outgoing) and dict(made.properties)["MARK"] == "new"


def test_what_has_no_body_is_not_sent() -> None:
    for body, reason in ((None, "decompressed"), (b"", "empty")):
        made = outgoing(row(body=body), "orders", "ID", [])
        assert isinstance(made, Resent) and made.outcome is SendOutcome.FAILED and reason in made.error


def test_ids_of_replays_follow_from_run_and_place_alone() -> None:
    assert replayed_id("a", "O") == replayed_id("a", "O")
    assert len({replayed_id("a", "O"), replayed_id("b", "O"), replayed_id("a", "P"), replayed_id("aO", "")}) == 4


def test_a_letter_goes_to_its_first_topic_or_to_its_group_alone() -> None:
    everybody = letter_to_send(row(), "g", None, only_group=False)
    alone = letter_to_send(row(), "g", None, only_group=True)
    assert isinstance(everybody, Outgoing) and isinstance(alone, Outgoing)
    assert everybody.topic == "orders" and everybody.message_id == redriven_id("O")
    assert dict(everybody.properties)[REDRIVEN_FROM] == "O" and names.RETRY_TOPIC not in dict(everybody.properties)
    assert alone.topic == "%RETRY%g" and dict(alone.properties)[names.RETRY_TOPIC] == "orders"


def test_a_letter_that_does_not_say_where_it_came_from_fails() -> None:
    made = letter_to_send(row(properties={}), "g", None, only_group=False)
    assert isinstance(made, Resent) and "which topic" in made.error


def test_a_patch_may_change_everything_but_the_id() -> None:
    def patch(letter: PatchInput) -> PatchInput:
        assert (letter.body, letter.keys, letter.tags, letter.topic) == (b"x", "k", "t", "orders")
        assert letter.properties == {"colour": "green", names.SHARDING_KEY: "s"}
        return msgspec.structs.replace(letter, topic="other", body=b"y", keys="", properties={"colour": "blue"})

    made = letter_to_send(row(), "g", patch, only_group=False)
    assert isinstance(made, Outgoing) and made.topic == "other" and made.body == b"y"
    assert made.message_id == redriven_id("O")
    assert dict(made.properties) == {
        names.UNIQUE_KEY: redriven_id("O"), REDRIVEN_FROM: "O", names.TAGS: "t", "colour": "blue",
    }  # fmt: skip


def test_a_patch_that_returns_something_else_fails_its_letter() -> None:
    made = letter_to_send(row(), "g", lambda letter: cast(Any, "text"), only_group=False)
    assert isinstance(made, Resent) and made.outcome is SendOutcome.FAILED and "returned str" in made.error


def test_a_letter_is_looked_for_wherever_an_earlier_run_may_have_sent_it() -> None:
    def patch(letter: PatchInput) -> PatchInput:
        return msgspec.structs.replace(letter, topic="other")

    for only_group, patched, places in (
        (False, None, ("orders", "%RETRY%g")),
        (True, None, ("%RETRY%g", "orders")),
        (False, patch, ("other", "orders", "%RETRY%g")),
    ):
        made = letter_to_send(row(), "g", patched, only_group=only_group)
        assert isinstance(made, Outgoing) and made.sent_to == places


def test_a_summary_counts_outcomes() -> None:
    outcomes = [source_of(row(), outcome) for outcome in (SendOutcome.SENT, SendOutcome.SENT, SendOutcome.HELD_BACK)]
    found = summary("g", False, CanaryVerdict.PASSED, outcomes, 1.23456)
    assert (found.found, found.sent, found.failed, found.held_back, found.took_s) == (3, 2, 0, 1, 1.235)


def test_errors_of_spark_are_told_in_their_own_words() -> None:
    raised = "pyromq.client.core.errors.TopicNotFoundError: no topic t"
    trace = f"[X] Y\nTraceback (most recent call last):\n  File x\n{raised}\n at z"
    assert str(translated(trace)) == "no topic t"
    assert isinstance(translated("[UNRESOLVED] nothing\nat x"), JobFailedError)
    assert str(translated("[UNRESOLVED] nothing\nat x")) == "[UNRESOLVED] nothing"
    missing = translated("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: delta. Make sure")
    assert isinstance(missing, FormatMissingError) and "io.delta" in str(missing)


class Loop:
    """Stands for an open client."""

    is_usable = True

    def call(self, work: Any) -> Any:
        return asyncio.run(work)


def test_messages_of_a_sharding_key_are_sent_in_their_order_and_told_of_in_that_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sender, sent = PacedSender("n:1", {}), list[str]()
    monkeypatch.setattr(sender, "_connected", Loop())

    async def slower_and_slower_down(message: Outgoing) -> Resent:
        for _ in range(20 - int(message.message_id)):  # the first would be the last if they did not wait
            await asyncio.sleep(0)
        sent.append(message.message_id)
        return msgspec.structs.replace(message.source, new_message_id=message.message_id)

    monkeypatch.setattr(sender, "_send", slower_and_slower_down)
    passing = source_of(row(), SendOutcome.HELD_BACK, new_message_id="none")
    keyed = [
        outgoing(row(properties={names.SHARDING_KEY: key} if key else {}), "orders", f"{number}", [])
        for number, key in enumerate(["a", "b", "", "a", "b", ""])
    ]
    told = list(sender.send_all([passing, *keyed]))

    assert [each.new_message_id for each in told] == ["none", "0", "1", "2", "3", "4", "5"]
    assert sent.index("0") < sent.index("3") and sent.index("1") < sent.index("4")
    assert sent.index("5") < sent.index("2"), "others do not wait"


def test_a_topic_that_is_not_there_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, tried = ManualClock(), list[str]()
    sender = PacedSender("n:1", {"retryTimeout": "1ms"}, clock=clock)
    monkeypatch.setattr(sender, "_connected", Loop())

    async def refuse(message: Outgoing) -> Resent:
        tried.append(message.message_id)
        clock.advance_ms(2)  # longer than anybody is patient
        raise TopicNotFoundError("orders", "no topic orders")

    monkeypatch.setattr(sender, "_send", refuse)
    messages = [outgoing(row(properties={}), "orders", f"{number}", []) for number in range(CHUNK_MAX + 3)]
    told = list(sender.send_all(messages))
    assert {each.outcome for each in told} == {SendOutcome.FAILED} and len(told) == len(messages)
    assert "no topic orders" in told[-1].error and f"{CHUNK_MAX}" not in tried


class RunningQuery:
    """A query that goes on until it is stopped; somebody presses Ctrl-C at the third look."""

    def __init__(self) -> None:
        self.isActive, self.looks = True, 0

    @property
    def recentProgress(self) -> list[dict[str, Any]]:  # noqa: N802
        return [{"batchId": number, "numInputRows": 10} for number in range(self.looks)]

    def awaitTermination(self, timeout: float) -> bool:  # noqa: N802
        self.looks += 1
        if self.looks == 3:
            raise KeyboardInterrupt
        return False

    def stop(self) -> None:
        self.isActive = False


def test_an_interrupt_ends_an_endless_query_in_order_and_any_other_with_the_interrupt() -> None:
    endless, other = RunningQuery(), RunningQuery()
    told: list[int] = []
    assert drain(cast(Any, endless), lambda done, total=None, text="": told.append(done), endless=True) == 30
    assert told == [10, 20, 30] and not endless.isActive
    with pytest.raises(KeyboardInterrupt):
        drain(cast(Any, other))
    assert not other.isActive


def test_an_interrupt_ends_all_endless_queries() -> None:
    queries = RunningQuery(), RunningQuery()
    assert drain_all(cast(Any, queries), endless=True) == [30, 20]
    assert not any(query.isActive for query in queries)


def test_a_query_that_fails_beside_an_endless_one_is_told_and_stops_it() -> None:
    class FailingQuery(RunningQuery):
        def awaitTermination(self, timeout: float) -> bool:  # noqa: N802
            self.isActive = False
            raise PySparkException("[X] no room left")

    endless = RunningQuery()
    with pytest.raises(JobFailedError, match="no room left"):
        drain_all(cast(Any, [endless, FailingQuery()]), endless=True)
    assert not endless.isActive and endless.looks == 1


def test_rows_and_messages_of_a_batch_are_counted_as_every_spark_tells_them() -> None:
    start, end = {"t": {"b": {"0": 3, "1": 5}}}, {"t": {"b": {"0": 7, "1": 5, "2": 9}}}  # queue 2 was only noted
    source = {"numInputRows": 2, "startOffset": start, "endOffset": json.dumps(end)}
    here, there = {"numInputRows": 4, "sources": [source]}, {"numInputRows": None, "sources": [source, source]}
    assert (rows_read(here), rows_read(there)) == (4, 4)
    assert offsets_read(here) == 4
    assert offsets_read({"sources": [{"startOffset": None, "endOffset": "7"}]}) == 0, "not our source"
