"""Why rows failed: told by a consumer group on Spark, counted by a report, chosen by a redrive."""

from __future__ import annotations

from typing import Any

import pytest

from pyromq.model.failure import STORY_NAMES
from pyromq.model.names import retry_topic
from pyromq.pipeline import Dead, Record, Retry
from pyromq.pipeline.jobs import page
from tests.spark.engines import redrive, report
from tests.spark.test_consume import run, wait_for
from tests.spark.topics import Topics

pytestmark = pytest.mark.spark


class CardDeclinedError(Exception):
    pass


def test_failed_rows_tell_why_and_reports_and_redrives_go_by_it(spark: Any, topics: Topics, checkpoint: str) -> None:
    topic = topics.make()

    def handle(record: Record) -> Retry | Dead | None:
        text = record.body.decode()
        if text.startswith("card"):
            raise CardDeclinedError(f"{text} is declined")
        if text.startswith("dead"):
            return Dead(f"no customer {text[5:]}")
        return Retry(delay_level=1, reason="not yet") if not record.delivery_attempt else None

    def mask(text: str) -> str:
        return text.replace("4111", "****")

    topics.send(topic, ["card 4111", "card 4222", "dead 1", "dead 2", "later"])
    options: dict[str, Any] = {"attempts_max": 0, "code_version": "spark 3", "mask_error": mask}
    run(spark, topics, topic, handle, checkpoint, **options)

    letters = {letter.failure.text: letter for letter in topics.admin.dead_letters.list(topics.group)}
    assert set(letters) == {
        "card **** is declined",
        "card 4222 is declined",
        "no customer 1",
        "no customer 2",
        "not yet",
    }
    card = letters["card **** is declined"]
    assert card.failure.error_class.endswith("CardDeclinedError") and card.failure.version == "spark 3"
    assert (card.story.count, card.failure.attempt) == (1, 1) if card.story else False
    assert card.reason == "CardDeclinedError: card **** is declined"
    by_error = topics.admin.dead_letters.by_error(topics.group)
    counts = {each.error_class.rpartition(".")[2]: each.count for each in by_error.errors}
    assert counts == {"CardDeclinedError": 2, "Dead": 2, "Retry": 1}

    found = report(spark, [topic], nameserver=topics.nameserver, groups=[topics.group])
    reported = {each.error_class.rpartition(".")[2]: (each.count, each.stack) for each in found.dead}
    assert reported == {each.error_class.rpartition(".")[2]: (each.count, each.stack) for each in by_error.errors}
    times = {each.stack: (each.first_ms, each.last_ms) for each in by_error.errors}
    assert {each.stack: (each.first_ms, each.last_ms) for each in found.dead} == times
    assert card.failure.stack in page(found) and "first seen" in page(found)

    for error in ("CardDeclinedError", card.failure.stack, card.failure.error_class):
        chosen = redrive(spark, topics.group, nameserver=topics.nameserver, errors=error)
        assert {each.message_id for each in chosen.letters} == {
            letter.message_id for letter in letters.values() if "declined" in letter.failure.text
        }
    sent = redrive(spark, topics.group, nameserver=topics.nameserver, errors=["CardDeclinedError"], dry_run=False)
    assert (sent.found, sent.sent) == (2, 2)
    again = [message for message in topics.admin.messages.newest(topic, 10) if message.get("REDRIVEN_FROM")]
    assert len(again) == 2 and not any(set(message.properties) & set(STORY_NAMES) for message in again)


def test_a_row_that_comes_again_tells_of_its_first_time(spark: Any, topics: Topics, checkpoint: str) -> None:
    topic = topics.make()

    def handle(record: Record) -> None:
        story = record.failure_story
        raise CardDeclinedError("first" if story is None else f"after {story.newest.text}")

    topics.send(topic, ["x"])
    run(spark, topics, topic, handle, checkpoint, attempts_max=1)
    wait_for(topics, retry_topic(topics.group), 1)
    run(spark, topics, topic, handle, checkpoint, attempts_max=1)
    [letter] = topics.admin.dead_letters.list(topics.group)
    assert letter.story is not None and (letter.story.count, letter.story.same) == (2, 2)
    assert (letter.story.newest.text, letter.story.first.text) == ("after first", "first")
