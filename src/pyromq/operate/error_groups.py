"""Error groups: failed messages put together by what they failed with. Pure; ``failures`` reads the messages.

One error is one class and one stack hash (``model.failure``). What failed messages of other clients say (nothing), and
dead letters of older consumers (a reason alone), have groups too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from pyromq.model import property_names as names
from pyromq.model.failure import Failure, FailureStory, failure_from_text

GROUPS_MAX: Final = 1_000
NAMES_MAX: Final = 20  # topics, versions, hosts of a group
OTHERS: Final = "all other errors"
TREND_PARTS: Final = 24


class ErrorGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that failed with one error. ``text`` and ``sample_id`` (an offset id) are of the newest of them.

    ``trend`` counts them in 24 equal parts of the time that the failures of all errors span, for a small chart.
    ``error_class`` and ``stack`` are empty where nobody said. ``redriven`` of the ``count`` letters were sent again, as
    far as that is known without looking for each. ``topics``, ``versions`` and ``hosts`` have at most 20 names.
    """

    error_class: str
    stack: str
    text: str
    count: int
    first_ms: int
    last_ms: int
    redriven: int = 0
    topics: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    sample_id: str = ""
    trend: tuple[int, ...] = ()


class ScannedQueue(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets of a queue that were read, of those that it holds."""

    topic: str
    broker: str
    queue: int
    begin: int
    end: int
    held_begin: int

    @property
    def is_cut(self) -> bool:
        return self.begin > self.held_begin


class ErrorGroups(msgspec.Struct, frozen=True, kw_only=True):
    """The errors of a group of consumers, the most frequent first; ``is_cut``: there are older messages, not read."""

    group: str
    errors: tuple[ErrorGroup, ...]
    messages: int
    scanned: tuple[ScannedQueue, ...]
    is_cut: bool


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """A failed message, as far as grouping is concerned."""

    failure: Failure
    first_ms: int
    last_ms: int
    topic: str
    place: str  # its offset id
    is_redriven: bool = False


def reported_by(
    properties: Mapping[str, str], *, stored_ms: int, topic: str, place: str, is_redriven: bool = False
) -> Told:
    """What a message in a retry or dead-letter topic says; when it was stored stands for times that it does not."""
    story = FailureStory.of(properties)
    failure = story.newest if story is not None else newest_of(properties)
    last_ms = failure.time_ms or stored_ms
    first_ms = last_ms
    if story is not None and story.first.error == failure.error and story.first.time_ms:
        first_ms = min(last_ms, story.first.time_ms)
    return Told(failure=failure, first_ms=first_ms, last_ms=last_ms, topic=topic, place=place, is_redriven=is_redriven)


def newest_of(properties: Mapping[str, str]) -> Failure:
    """Why a message failed last; an older consumer's reason has no class, and what nobody reported is empty."""
    story = FailureStory.of(properties)
    if story is not None:
        return story.newest
    reason = properties.get(names.DLQ_ERROR, "")
    return failure_from_text("", reason) if reason else Failure(error_class="")


def trend_of(times_ms: Iterable[int], begin_ms: int, end_ms: int) -> tuple[int, ...]:
    """Count moments in equal parts of a time; empty where it has no length."""
    if end_ms <= begin_ms:
        return ()
    parts = [0] * TREND_PARTS
    for time_ms in times_ms:
        parts[min(TREND_PARTS - 1, max(0, (time_ms - begin_ms) * TREND_PARTS // (end_ms - begin_ms)))] += 1
    return tuple(parts)


def grouped(failures: Sequence[Told]) -> tuple[ErrorGroup, ...]:
    """The most frequent first; of too many, the rarest are one group."""
    by_error: dict[tuple[str, str], list[Told]] = {}
    for each in failures:
        by_error.setdefault(each.failure.error, []).append(each)
    span = (min((each.last_ms for each in failures), default=0), max((each.last_ms for each in failures), default=0))
    ordered = sorted(by_error.values(), key=lambda some: (-len(some), -max(each.last_ms for each in some)))
    if len(ordered) <= GROUPS_MAX:
        return tuple(_group_of(some, span) for some in ordered)
    rest = [each for some in ordered[GROUPS_MAX - 1 :] for each in some]
    others = msgspec.structs.replace(_group_of(rest, span), error_class=OTHERS, stack="", text="")
    return (*(_group_of(some, span) for some in ordered[: GROUPS_MAX - 1]), others)


def _group_of(some: Sequence[Told], span: tuple[int, int]) -> ErrorGroup:
    newest = max(some, key=lambda each: each.last_ms)
    return ErrorGroup(
        error_class=newest.failure.error_class,
        stack=newest.failure.stack,
        text=newest.failure.text,
        count=len(some),
        first_ms=min(each.first_ms for each in some),
        last_ms=newest.last_ms,
        redriven=sum(each.is_redriven for each in some),
        topics=_names(each.topic for each in some),
        versions=_names(each.failure.version for each in some),
        hosts=_names(each.failure.host for each in some),
        sample_id=newest.place,
        trend=trend_of((each.last_ms for each in some), *span),
    )


def _names(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({name for name in found if name})[:NAMES_MAX])


def shares(sizes: Sequence[int], budget: int) -> list[int]:
    """How many of each may be read so that all together are within the budget; small ones are read whole."""
    left, found = max(0, budget), [0] * len(sizes)
    for rank, place in enumerate(sorted(range(len(sizes)), key=lambda place: sizes[place])):
        found[place] = min(sizes[place], left // (len(sizes) - rank))
        left -= found[place]
    return found
