"""Inputs of a report without Spark: the messages, the deliveries that the trace reports, what was sent back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from pyromq.model import failure
from pyromq.model import property_names as names
from pyromq.model.names import dead_letter_topic, retry_topic
from pyromq.pipeline.jobs.common.plain_rows import rows_of
from pyromq.pipeline.jobs.common.selection import Selection
from pyromq.pipeline.jobs.reporting.reading import CAUSE_CHARACTERS, CAUSE_PROPERTIES, COLUMNS, existing
from pyromq.wire.trace import ConsumeBegan, ConsumeEnded, decode_records

_is_number: Final = re.compile(r"\s*[+-]?[0-9]+\s*").fullmatch


class StoredMessage(NamedTuple):
    """A message without its body; ``place`` is like ``broker:3``."""

    topic: str
    place: str
    offset: int
    message_id: str
    keys: str
    born_ms: int
    stored_ms: int


class Delivery(NamedTuple):
    """A message was handed to a listener; the last three are None where nothing was reported of the end."""

    group: str
    topic: str
    message_id: str
    keys: str
    stored_ms: int
    born_ms: int
    attempt: int
    began_ms: int
    ended_ms: int | None
    cost_ms: int | None
    is_success: bool | None


class SentBack(NamedTuple):
    """A message of a retry or dead-letter topic; ``topic`` is where it was sent first."""

    group: str
    topic: str
    stored_ms: int
    attempt: int
    properties: Mapping[str, str]


class LetterCause(NamedTuple):
    """What a dead letter reports of its last error."""

    error_class: str
    stack: str
    cause: str
    first_ms: int
    last_ms: int


def messages_of(reading: Selection) -> list[StoredMessage]:
    """Read the messages of a report. Raises what the source raises, and TooLargeForMemoryError."""
    return [
        StoredMessage(
            row["topic"], f"{row['broker']}:{row['queue_id']}", row["queue_offset"], row["message_id"] or "",
            row["keys"] or "", _ms(row["born_time"]), _ms(row["store_time"]),
        )
        for row in rows_of(reading, *COLUMNS)
    ]  # fmt: skip


def deliveries_of(messages: Iterable[StoredMessage], reading: Selection, topic: str) -> list[Delivery] | None:
    """Deliveries of these messages by the trace; None when there is no such trace topic.

    A message id may be there twice in a topic, for producers send again when they do not hear: the first one counts.
    """
    if not existing(reading, (topic,)):
        return None
    first: dict[str, tuple[int, int, str]] = {}
    for each in messages:
        found = (each.stored_ms, each.born_ms, each.topic)
        first[each.message_id] = min(found, first.get(each.message_id, found))
    first.pop("", None)
    trace = msgspec.structs.replace(reading, topics=(topic,), end=None)  # it is written after what it reports
    began: dict[tuple[str, str], ConsumeBegan] = {}
    ended: dict[tuple[str, str], ConsumeEnded] = {}
    for row in rows_of(trace, "body"):
        for record in decode_records(row["body"] or b""):
            match record:
                case ConsumeBegan() if record.message_id in first:
                    began[record.request_id, record.message_id] = record
                case ConsumeEnded() if record.message_id in first:
                    ended[record.request_id, record.message_id] = record
    return [_delivery(first[key[1]], record, ended.get(key)) for key, record in began.items()]


def _delivery(message: tuple[int, int, str], began: ConsumeBegan, ended: ConsumeEnded | None) -> Delivery:
    stored_ms, born_ms, topic = message
    end_ms = (ended.time_ms or began.time_ms + ended.cost_ms) if ended is not None else None
    return Delivery(
        began.group, topic, began.message_id, began.keys, stored_ms, born_ms, began.delivery_attempt + 1, began.time_ms,
        end_ms, ended.cost_ms if ended is not None else None, ended.is_success if ended is not None else None,
    )  # fmt: skip


def retried_of(reading: Selection, groups: Iterable[str]) -> Iterator[SentBack]:
    """What lies in the retry topics of groups."""
    return _sent_back(reading, {retry_topic(group): group for group in groups})


def dead_of(reading: Selection, groups: Iterable[str]) -> Iterator[SentBack]:
    """What lies in the dead-letter topics of groups."""
    return _sent_back(reading, {dead_letter_topic(group): group for group in groups})


def _sent_back(reading: Selection, groups: Mapping[str, str]) -> Iterator[SentBack]:
    """What comes from other topics than those of the report is left out."""
    known = sorted(existing(reading, groups))
    if not known:
        return
    chosen = msgspec.structs.replace(reading, topics=tuple(known))
    for row in rows_of(chosen, "topic", "store_time", "delivery_attempt", "properties"):
        properties = row["properties"] or {}
        origin = properties.get(names.RETRY_TOPIC, properties.get(names.DLQ_ORIGIN_TOPIC, "?"))
        plain = origin if origin.startswith("%") else origin.rpartition("%")[2]  # without a namespace
        if plain == "?" or plain in reading.topics:
            yield SentBack(groups[row["topic"]], plain, _ms(row["store_time"]), row["delivery_attempt"], properties)


def cause_of(letter: SentBack) -> LetterCause:
    found = letter.properties.get
    is_story = found(failure.COUNT) is not None
    story = ": ".join(text for text in (found(failure.CLASS), found(failure.TEXT)) if text is not None)
    reported = next((text for name in CAUSE_PROPERTIES if (text := found(name)) is not None), None)
    given_up = f"given up after {letter.attempt} attempts"
    cause = reported if reported is not None else story if is_story else given_up
    last_ms = _number(found(failure.TIME), letter.stored_ms)
    is_same = found(failure.FIRST_STACK) is not None and found(failure.FIRST_STACK) == found(failure.STACK)
    return LetterCause(
        error_class=found(failure.CLASS, "") if is_story else "",
        stack=found(failure.STACK, "") if is_story else "",
        cause=cause[:CAUSE_CHARACTERS],
        first_ms=_number(found(failure.FIRST_TIME), last_ms) if is_same else last_ms,
        last_ms=last_ms,
    )


def _number(text: str | None, otherwise: int) -> int:
    return int(text) if text is not None and _is_number(text) else otherwise


def _ms(moment: datetime | Any) -> int:
    return round(moment.timestamp() * 1000)
