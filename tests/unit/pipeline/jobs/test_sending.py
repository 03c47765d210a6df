"""What is sent again, decided without a broker."""

from __future__ import annotations

import json
from typing import Any, cast

import msgspec
import pytest

from pyromq.client.admin.dead_letters import REDRIVEN_FROM, redriven_id
from pyromq.model import property_names as names
from pyromq.pipeline.jobs.errors import FormatMissingError, JobFailedError
from pyromq.pipeline.jobs.patching import Letter
from pyromq.pipeline.jobs.queries import drain, offsets_read, rows_read, translated
from pyromq.pipeline.jobs.redrive_job import CanaryVerdict, letter_to_send, summary
from pyromq.pipeline.jobs.replay_job import replayed_id
from pyromq.pipeline.jobs.sending import Outgoing, Resent, SendOutcome, outgoing, source_of


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
    def patch(letter: Letter) -> Letter:
        assert (letter.body, letter.keys, letter.tags, letter.topic) == (b"x", "k", "t", "orders")
        assert letter.properties == {"colour": "green", names.SHARDING_KEY: "s"}
        return msgspec.structs.replace(letter, topic="other", body=b"y", keys="", properties={"colour": "blue"})

    made = letter_to_send(row(), "g", patch, only_group=False)
    assert isinstance(made, Outgoing) and made.topic == "other" and made.body == b"y"
    assert made.message_id == redriven_id("O")
    assert dict(made.properties) == {
        names.UNIQUE_KEY: redriven_id("O"), REDRIVEN_FROM: "O", names.TAGS: "t", "colour": "blue",
    }  # fmt: skip


def test_a_summary_counts_outcomes() -> None:
    outcomes = [source_of(row(), outcome) for outcome in (SendOutcome.SENT, SendOutcome.SENT, SendOutcome.HELD_BACK)]
    found = summary("g", False, CanaryVerdict.PASSED, outcomes, 1.23456)
    assert (found.found, found.sent, found.failed, found.held_back, found.took_s) == (3, 2, 0, 1, 1.235)


def test_errors_of_spark_are_told_in_their_own_words() -> None:
    raised = "pyromq.client.errors.TopicNotFoundError: no topic t"
    trace = f"[X] Y\nTraceback (most recent call last):\n  File x\n{raised}\n at z"
    assert str(translated(trace)) == "no topic t"
    assert isinstance(translated("[UNRESOLVED] nothing\nat x"), JobFailedError)
    assert str(translated("[UNRESOLVED] nothing\nat x")) == "[UNRESOLVED] nothing"
    missing = translated("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: delta. Make sure")
    assert isinstance(missing, FormatMissingError) and "io.delta" in str(missing)


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


def test_rows_and_messages_of_a_batch_are_counted_as_every_spark_tells_them() -> None:
    start, end = {"t": {"b": {"0": 3, "1": 5}}}, {"t": {"b": {"0": 7, "1": 5, "2": 9}}}  # queue 2 was only noted
    source = {"numInputRows": 2, "startOffset": start, "endOffset": json.dumps(end)}
    here, there = {"numInputRows": 4, "sources": [source]}, {"numInputRows": None, "sources": [source, source]}
    assert (rows_read(here), rows_read(there)) == (4, 4)
    assert offsets_read(here) == 4
    assert offsets_read({"sources": [{"startOffset": None, "endOffset": "7"}]}) == 0, "not our source"
