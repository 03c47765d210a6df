"""A consumer group on Spark: done, again, dead; and what the group knows of it."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from pyromq.errors import MQError
from pyromq.model.names import dead_letter_topic, retry_topic
from pyromq.pipeline import Dead, Record, Retry, consume
from tests.spark.test_sink import stored
from tests.spark.topics import Topics

pytestmark = pytest.mark.spark
TIMEOUT_S = 300


def noting(path: Path) -> Any:
    """A function that writes down what it is told, from any process."""
    name = str(path)

    def note(*words: object) -> None:
        with open(name, "a", encoding="utf-8") as file:
            file.write(" ".join(map(str, words)) + "\n")

    return note


def run(spark: Any, topics: Topics, topic: str, handler: Any, checkpoint: str, **more: Any) -> Any:
    """Over what there is now."""
    running = consume(
        spark, topic, topics.group, handler, nameserver=topics.nameserver, start="earliest", checkpoint=checkpoint,
        trigger={"availableNow": True}, **more,
    )  # fmt: skip
    assert running.wait(TIMEOUT_S)
    return running


def wait_for(topics: Topics, topic: str, count: int) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            if sum(each.max_offset for each in topics.admin.topics.stats(topic).values()) >= count:
                return
        except MQError:
            pass
        time.sleep(0.05)
    raise AssertionError(f"{topic} has not got {count} messages")


def test_rows_are_done_come_again_or_die_one_by_one(
    spark: Any, topics: Topics, checkpoint: str, tmp_path: Path
) -> None:
    topic, note = topics.make(), noting(tmp_path / "notes")

    def handle(record: Record) -> Retry | Dead | None:
        text = record.body.decode()
        note(text, record.delivery_attempt, record.topic)
        if text.startswith("bad"):
            return Dead("no such customer")
        if text.startswith("again") and not record.delivery_attempt:
            return Retry(delay_level=1)
        if text.startswith("boom"):
            raise KeyError(text)
        return None

    good = topics.send(topic, [f"good-{n}" for n in range(20)])
    again = topics.send(topic, [f"again-{n}" for n in range(4)])
    bad = topics.send(topic, [f"bad-{n}" for n in range(3)], tags="red", properties={"shop": "north"})
    topics.send(topic, ["boom"])
    first = run(spark, topics, topic, handle, checkpoint).counts
    assert (first.rows, first.done, first.retried, first.dead) == (28, 20, 5, 3)
    ends = {queue.number: topics.admin.offsets.range(queue).max_offset for queue in topics.queues(topic)}
    assert topics.committed(topic) == ends, "the group stands behind the last row"

    letters = stored(topics, dead_letter_topic(topics.group))
    assert Counter(letter.body.decode() for letter in letters) == Counter(bad)
    letter = letters[0]
    assert letter.get("DLQ_ERROR") == "no such customer" and letter.get("DLQ_STAGE") == "handler"
    assert letter.get("DLQ_BATCH").endswith("/0") and letter.get("DLQ_SOURCE").startswith(f"{topic}/broker-a/")
    assert (letter.get("RETRY_TOPIC"), letter.tags, letter.get("shop")) == (topic, "red", "north")

    wait_for(topics, retry_topic(topics.group), 4)
    second = run(spark, topics, topic, handle, checkpoint).counts
    seen = (tmp_path / "notes").read_text().splitlines()
    late = seen.count(f"boom 1 {topic}")  # its delay is ten seconds: a slow machine gets it in this run
    assert (second.rows, second.done, second.dead) == (32 + late, 24, 3)
    assert sorted(seen) == sorted(
        [f"boom 1 {topic}"] * late
        + [f"{text} 0 {topic}" for text in (*good, *again, *bad, "boom")]
        + [f"{text} 1 {topic}" for text in again]
    ), "a message that comes again has its topic and its attempt"


def test_rows_that_failed_too_often_are_dead_letters_that_tell_why(spark: Any, topics: Topics, checkpoint: str) -> None:
    topic = topics.make()
    topics.send(topic, ["one", "two"])

    def handle(record: Record) -> None:
        raise ValueError("not \x01 today")

    counts = run(spark, topics, topic, handle, checkpoint, attempts_max=0).counts
    assert (counts.rows, counts.retried, counts.dead) == (2, 0, 2)
    letters = stored(topics, dead_letter_topic(topics.group))
    assert {letter.get("DLQ_ERROR") for letter in letters} == {"ValueError: not   today"}
    assert {letter.get("DLQ_STAGE") for letter in letters} == {"attempts"}


def test_a_handler_of_batches_has_a_verdict_for_each_row(spark: Any, topics: Topics, checkpoint: str) -> None:
    topic = topics.make()
    topics.send(topic, [f"{n:02}" for n in range(10)])

    def handle(batch: Any) -> list[Any]:
        assert batch.column("tags").null_count == batch.num_rows
        return [Dead("odd") if int(body) % 2 else None for body in batch.column("body").to_pylist()]

    counts = run(spark, topics, topic, handle, checkpoint, batches=True, columns=["tags"]).counts
    assert (counts.rows, counts.done, counts.dead) == (10, 5, 5)
    bodies = Counter(letter.body.decode() for letter in stored(topics, dead_letter_topic(topics.group)))
    assert bodies == Counter(f"{n:02}" for n in range(1, 10, 2))


def test_without_a_checkpoint_the_group_is_what_a_restart_goes_on_from(
    spark: Any, topics: Topics, tmp_path: Path
) -> None:
    topic, note = topics.make(), noting(tmp_path / "notes")

    def handle(record: Record) -> None:
        note(record.body.decode())

    sent = topics.send(topic, ["a", "b"])
    run(spark, topics, topic, handle, "")
    sent += topics.send(topic, ["c"])
    run(spark, topics, topic, handle, "")
    assert sorted((tmp_path / "notes").read_text().split()) == sorted(sent)


def test_a_worker_that_is_killed_loses_nothing_and_the_group_stays_where_it_was(
    spark: Any, topics: Topics, checkpoint: str, tmp_path: Path
) -> None:
    topic, note, killed = topics.make(), noting(tmp_path / "notes"), str(tmp_path / "killed")
    sent = topics.send(topic, [f"row-{n}" for n in range(20)])

    def handle(record: Record) -> None:
        note(record.body.decode())
        if record.body == b"row-13" and not os.path.exists(killed):
            Path(killed).touch()
            os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(PySparkException):
        run(spark, topics, topic, handle, checkpoint)
    assert set(topics.committed(topic).values()) <= {0, None}, "no row of the batch counts as done"
    counts = run(spark, topics, topic, handle, checkpoint).counts
    assert (counts.rows, counts.done) == (20, 20)
    seen = Counter((tmp_path / "notes").read_text().split())
    assert set(seen) == set(sent) and seen["row-13"] == 2


def test_a_handler_that_always_fails_stops_the_query_and_nothing_is_sent_back(
    spark: Any, topics: Topics, checkpoint: str
) -> None:
    topic = topics.make(queues=1)
    topics.send(topic, range(300))

    def handle(record: Record) -> None:
        raise KeyError("price")

    with pytest.raises(PySparkException, match="300 of 300 messages failed at their first delivery") as raised:
        run(spark, topics, topic, handle, checkpoint)
    assert "Traceback (most recent call last)" not in str(raised.value).split("TooManyFailuresError")[0]
    assert topics.committed(topic)[0] == 0 and retry_topic(topics.group) not in _with_messages(topics)

    run(spark, topics, topic, lambda record: None, checkpoint)  # mended, it goes on where it was
    assert topics.committed(topic)[0] == 300


def _with_messages(topics: Topics) -> set[str]:
    found = {retry_topic(topics.group)} & set(topics.admin.topics.names())
    return {name for name in found if any(each.max_offset for each in topics.admin.topics.stats(name).values())}
