r"""Failure story: why a message failed, as properties that travel with it into retry and dead letter.

    newest failure   class, text, stack hash, version, host, attempt, time
    first failure    class, the beginning of the text, stack hash, attempt, time; left out while it is the newest, too
    counters         failures that were reported, and how many of them in a row were the newest error
    traceback        of the newest failure, where a consumer was asked for it: its last lines, within the room left

Only these two are kept, whatever number of attempts there is, and each part has a limit: a story has at most
``STORY_BYTES_MAX`` bytes. Values are printable text on one line, so nothing in them can end a property
(``\x01``, ``\x02``) or a row of a table; a traceback has a backslash and an n where a line ends, and two backslashes
for one. Every stored copy of a message reports the attempt before it, so the copies together report each attempt.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Final, Self

import msgspec

CLASS: Final = "FAILURE_CLASS"
TEXT: Final = "FAILURE_TEXT"
STACK: Final = "FAILURE_STACK"
VERSION: Final = "FAILURE_VERSION"
HOST: Final = "FAILURE_HOST"
ATTEMPT: Final = "FAILURE_ATTEMPT"
TIME: Final = "FAILURE_TIME"
COUNT: Final = "FAILURE_COUNT"
SAME: Final = "FAILURE_SAME"
FIRST_CLASS: Final = "FAILURE_FIRST_CLASS"
FIRST_TEXT: Final = "FAILURE_FIRST_TEXT"
FIRST_STACK: Final = "FAILURE_FIRST_STACK"
FIRST_ATTEMPT: Final = "FAILURE_FIRST_ATTEMPT"
FIRST_TIME: Final = "FAILURE_FIRST_TIME"
TRACEBACK: Final = "FAILURE_TRACEBACK"
STORY_NAMES: Final = (
    *(CLASS, TEXT, STACK, VERSION, HOST, ATTEMPT, TIME, COUNT, SAME),
    *(FIRST_CLASS, FIRST_TEXT, FIRST_STACK, FIRST_ATTEMPT, FIRST_TIME),
    TRACEBACK,
)
"""Names of the properties; consumers write them, applications read them."""

STORY_BYTES_MAX: Final = 4_096
CLASS_BYTES_MAX: Final = 200
TEXT_BYTES_MAX: Final = 1_024
FIRST_TEXT_BYTES_MAX: Final = 256
FACT_BYTES_MAX: Final = 100  # of a version, of a host
TRACEBACK_BYTES_MAX: Final = 3_072  # that a consumer can ask for; less where the rest of the story needs the room
TRACEBACK_LINE_BYTES_MAX: Final = 200
STACK_CHARACTERS: Final = 12
_NUMBER_DIGITS_MAX: Final = 18
_CUT: Final = "…"
_ESCAPED: Final = re.compile(r"\\(.)")
_VARYING: Final = re.compile(r"0x[0-9a-fA-F]+|[0-9a-fA-F]{8,}|\d+")  # numbers and ids: other ones in each message


class Failure(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One failed attempt. ``error_class`` is the name with its module, without one for Python's own exceptions.

    ``stack`` is a hash of what was called from where, without line numbers: the same error has the same one, after
    other lines of a file changed, too. ``attempt`` counts deliveries from 1. ``traceback`` is an excerpt, where the
    consumer keeps one (``traceback_bytes``). Empty, or 0, is what was not reported.
    """

    error_class: str
    text: str = ""
    stack: str = ""
    version: str = ""
    host: str = ""
    attempt: int = 0
    time_ms: int = 0
    traceback: str = ""

    @property
    def line(self) -> str:
        """Class and text of the error, in one line."""
        return f"{self.error_class}: {self.text}" if self.text else self.error_class

    @property
    def error(self) -> tuple[str, str]:
        """What distinguishes errors: class and stack hash."""
        return self.error_class, self.stack

    def is_called(self, name: str) -> bool:
        """Whether it is meant by a stack hash, or by a class with or without its module."""
        return bool(name) and (name in (self.stack, self.error_class) or self.error_class.endswith(f".{name}"))


class FailureStory(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is known of a message's failures. ``same`` counts how often in a row the newest error was the one."""

    newest: Failure
    first: Failure
    count: int = 1
    same: int = 1

    @classmethod
    def begun_by(cls, failure: Failure) -> Self:
        return cls(newest=failure, first=_as_first(failure))

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Self | None:
        """What properties say; None when they have no story. Whoever wrote them: the limits hold."""
        count, same = _number(properties.get(COUNT, "")), _number(properties.get(SAME, ""))
        if not count or not same:
            return None
        newest = Failure(
            error_class=printable(properties.get(CLASS, ""), CLASS_BYTES_MAX),
            text=printable(properties.get(TEXT, ""), TEXT_BYTES_MAX),
            stack=printable(properties.get(STACK, ""), FACT_BYTES_MAX),
            version=printable(properties.get(VERSION, ""), FACT_BYTES_MAX),
            host=printable(properties.get(HOST, ""), FACT_BYTES_MAX),
            attempt=_number(properties.get(ATTEMPT, "")),
            time_ms=_number(properties.get(TIME, "")),
            traceback=traceback_excerpt(_unescaped(properties.get(TRACEBACK, "")), STORY_BYTES_MAX),
        )
        if not properties.get(FIRST_TIME):
            return cls(newest=newest, first=_as_first(newest), count=count, same=same)
        first = Failure(
            error_class=printable(properties.get(FIRST_CLASS, ""), CLASS_BYTES_MAX),
            text=printable(properties.get(FIRST_TEXT, ""), FIRST_TEXT_BYTES_MAX),
            stack=printable(properties.get(FIRST_STACK, ""), FACT_BYTES_MAX),
            attempt=_number(properties.get(FIRST_ATTEMPT, "")),
            time_ms=_number(properties.get(FIRST_TIME, "")),
        )
        return cls(newest=newest, first=first, count=count, same=same)

    def followed_by(self, failure: Failure) -> FailureStory:
        """The story after one failure more."""
        same = self.same + 1 if failure.error == self.newest.error else 1
        return FailureStory(newest=failure, first=self.first, count=self.count + 1, same=same)

    def properties(self, *, with_traceback: bool = True) -> dict[str, str]:
        """What ``of`` reads; what is empty is left out, and of a traceback what does not fit."""
        newest, first = self.newest, self.first
        values = {
            CLASS: newest.error_class,
            TEXT: newest.text,
            STACK: newest.stack,
            VERSION: newest.version,
            HOST: newest.host,
            ATTEMPT: _digits(newest.attempt),
            TIME: _digits(newest.time_ms),
            COUNT: _digits(self.count),
            SAME: _digits(self.same),
        }
        if first != _as_first(newest):
            values[FIRST_CLASS] = first.error_class
            values[FIRST_TEXT] = first.text
            values[FIRST_STACK] = first.stack
            values[FIRST_ATTEMPT] = _digits(first.attempt)
            values[FIRST_TIME] = str(first.time_ms)
        written = {name: value for name, value in values.items() if value}
        if newest.traceback and with_traceback:
            taken = sum(len(name) + len(value.encode()) + 2 for name, value in written.items())
            excerpt = traceback_excerpt(newest.traceback, STORY_BYTES_MAX - taken - len(TRACEBACK) - 2)
            written |= {TRACEBACK: _escaped(excerpt)} if excerpt else {}
        return written


def story_after(before: FailureStory | None, failure: Failure) -> FailureStory:
    return FailureStory.begun_by(failure) if before is None else before.followed_by(failure)


def failure_from_text(error_class: str, text: str, stack: str = "") -> Failure:
    """A failure within the limits, whatever it is made from; one without a stack is known by its text.

    Numbers and ids in the text do not count then: "order 17 is gone" and "order 18 is gone" are one error.
    """
    text = printable(text, TEXT_BYTES_MAX)
    error_class = printable(error_class, CLASS_BYTES_MAX)
    return Failure(
        error_class=error_class,
        text=text,
        stack=printable(stack, FACT_BYTES_MAX) or hash_of((error_class, _VARYING.sub("#", text))),
    )


def hash_of(parts: Iterable[str]) -> str:
    """A short hash of words in their order."""
    digest = hashlib.blake2b(digest_size=STACK_CHARACTERS // 2)
    for part in parts:
        digest.update(part.encode("utf-8", "replace"))
        digest.update(b"\0")
    return digest.hexdigest()


def printable(text: str, bytes_max: int) -> str:
    """On one line and without anything that cannot be shown, in at most so many bytes of UTF-8."""
    text = text[: bytes_max + 1]  # a character has a byte at least
    if not text.isprintable():
        text = "".join([each if each.isprintable() else " " for each in text])
    text = text.strip()
    encoded = text.encode()
    if len(encoded) <= bytes_max:
        return text
    room = bytes_max - len(_CUT.encode())
    return encoded[:room].decode("utf-8", "ignore").rstrip() + _CUT


def traceback_excerpt(text: str, bytes_max: int) -> str:
    """The last lines of a traceback that fit into a property of so many bytes; ``…`` stands for those before them."""
    lines = "\n".join(map(_traceback_line, text.split("\n"))).strip("\n").split("\n") if text else []
    kept: list[str] = []
    left = bytes_max - len(_CUT.encode()) - 2
    for line in reversed(lines):
        left -= len(_escaped(line).encode()) + 2
        if left < 0:
            break
        kept.insert(0, line)
    if not any(kept):
        return ""
    return "\n".join(kept if len(kept) == len(lines) else [_CUT, *kept])


def _traceback_line(line: str) -> str:
    """A line in its limit, with the indentation that it has."""
    indent = line[: len(line) - len(line.lstrip(" "))][: TRACEBACK_LINE_BYTES_MAX // 2]
    shown = printable(line, TRACEBACK_LINE_BYTES_MAX - len(indent))
    return indent + shown if shown else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: "\n" if found[1] == "n" else found[1], text)


def _as_first(failure: Failure) -> Failure:
    """What is kept of a failure after others followed."""
    return Failure(
        error_class=failure.error_class,
        text=printable(failure.text, FIRST_TEXT_BYTES_MAX),
        stack=failure.stack,
        attempt=failure.attempt,
        time_ms=failure.time_ms,
    )


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _NUMBER_DIGITS_MAX else 0


def _digits(number: int) -> str:
    return str(number) if number else ""
