"""Letter filter: which dead letters are meant. One matcher, also as a condition of Spark SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Final, TypedDict

import msgspec

from pyromq.model import failure, property_names
from pyromq.model.failure import Failure, FailureStory, failure_from_text
from pyromq.model.same_fields import same_fields

LETTERS_MAX: Final = 100_000  # that are named one by one
Texts = Annotated[tuple[Annotated[str, msgspec.Meta(max_length=4096)], ...], msgspec.Meta(max_length=1_000)]
Places = Annotated[
    tuple[Annotated[str, msgspec.Meta(min_length=1, max_length=255)], ...], msgspec.Meta(max_length=LETTERS_MAX)
]


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A message that a group gave up on. ``topic`` is where it was sent first; empty if it does not say.

    ``reason`` is why, where a consumer said so: a body that does not decode, a DeadLetterError, a verdict of Spark, or
    else the text of the last error. ``story`` says more of it; None where consumers report none.
    """

    group: str
    topic: str
    message_id: str
    broker: str
    queue: int
    offset: int
    born_ms: int
    dead_ms: int
    attempts: int
    keys: tuple[str, ...] = ()
    tags: str = ""
    body_bytes: int = 0
    offset_message_id: str = ""
    is_redriven: bool = False
    reason: str = ""
    story: FailureStory | None = None

    @property
    def failure(self) -> Failure:
        """Why it failed last; empty where nobody reported."""
        if self.story is not None:
            return self.story.newest
        return failure_from_text("", self.reason) if self.reason else Failure(error_class="")


class LetterRow(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter in a list, with what it failed with; the same fields in every face."""

    group: str
    offset_message_id: str
    message_id: str
    topic: str
    broker: str
    queue: int
    offset: int
    dead_ms: int
    born_ms: int
    attempts: int
    keys: tuple[str, ...]
    tags: str
    body_bytes: int
    error_class: str
    stack: str
    text: str
    version: str
    is_redriven: bool
    traceback: str = ""

    @classmethod
    def of(cls, letter: DeadLetter) -> LetterRow:
        """Return the row of a letter."""
        failure = letter.failure
        return cls(
            error_class=failure.error_class,
            stack=failure.stack,
            text=failure.text or letter.reason,
            version=failure.version,
            traceback=failure.traceback,
            **same_fields(cls, letter),
        )


class LetterChoice(TypedDict, total=False):
    """Keywords that choose dead letters; ``LetterFilter`` has their meanings."""

    letters: Sequence[str]
    keys: Sequence[str]
    tags: Sequence[str]
    topics: Sequence[str]
    errors: Sequence[str]
    search: str


class LetterFilter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which letters: one of each kind that is given must hold; an empty filter takes all.

    ``letters`` are offset message ids, ``topics`` where letters were sent first. ``errors`` are classes with or without
    their module, hashes of stacks, or whole texts. ``search`` is found in ids, keys, tags, errors, whatever its case.
    """

    letters: Places = ()
    keys: Texts = ()
    tags: Texts = ()
    topics: Texts = ()
    errors: Texts = ()
    search: Annotated[str, msgspec.Meta(max_length=4096)] = ""

    @classmethod
    def of(cls, choice: LetterChoice) -> LetterFilter:
        """Return the filter of some keywords; one text is one of them, not its characters."""
        given: dict[str, Any] = {name: value if name == "search" else _several(value) for name, value in choice.items()}  # type: ignore[arg-type]
        return cls(**given)

    def takes(self, letter: DeadLetter) -> bool:
        """Whether the filter chooses a letter."""
        return (
            (not self.letters or letter.offset_message_id in self.letters)
            and (not self.keys or not set(self.keys).isdisjoint(letter.keys))
            and (not self.tags or letter.tags in self.tags)
            and (not self.topics or letter.topic in self.topics)
            and (not self.errors or any(_has_error(letter, error) for error in self.errors))
            and (not self.search or _mentions(letter, self.search.strip().lower()))
        )

    def matcher(self) -> Callable[[DeadLetter], bool]:
        """Return ``takes`` for many letters: names are looked up instead of compared one by one."""
        if not self.letters:
            return self.takes
        named, others = frozenset(self.letters), msgspec.structs.replace(self, letters=())
        return lambda letter: letter.offset_message_id in named and others.takes(letter)

    def sql(self) -> str:
        """Return the same condition over the columns of the Spark source; empty for a filter that takes all.

        It does not know the stack hash of a letter without one, which ``takes`` makes up from its reason.
        """
        parts = [
            _is_in("offset_message_id", self.letters),
            _any(f"array_contains(split(keys, ' '), {_quoted(key)})" for key in self.keys),
            _is_in("tags", self.tags),
            _is_in(_ORIGIN, self.topics),
            _any(_error_sql(error) for error in self.errors),
            _search_sql(self.search.strip().lower()) if self.search else "",
        ]
        return " AND ".join(f"({part})" for part in parts if part)


EVERY_LETTER: Final = LetterFilter()


def _has_error(letter: DeadLetter, error: str) -> bool:
    return letter.failure.is_called(error) or error in (letter.reason, letter.failure.text)


def _mentions(letter: DeadLetter, needle: str) -> bool:
    texts = (letter.message_id, letter.reason, letter.failure.error_class, letter.tags, *letter.keys)
    return any(needle in text.lower() for text in texts)


def _several(given: Iterable[str]) -> tuple[str, ...]:
    return tuple(filter(None, (given,) if isinstance(given, str) else given))


# --- Spark SQL ------------------------------------------------------------------------------------------------------


def _property(name: str) -> str:
    return f"properties['{name}']"


_ORIGIN: Final = f"coalesce({_property(property_names.RETRY_TOPIC)}, {_property(property_names.DLQ_ORIGIN_TOPIC)}, '')"
_CLASS: Final = f"coalesce({_property(failure.CLASS)}, '')"
_TEXT: Final = f"coalesce({_property(failure.TEXT)}, '')"
_REASON: Final = f"coalesce(nullif({_property(property_names.DLQ_ERROR)}, ''), {_property(failure.TEXT)}, '')"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _is_in(column: str, values: Iterable[str]) -> str:
    listed = ", ".join(map(_quoted, values))
    return f"{column} IN ({listed})" if listed else ""


def _any(parts: Iterable[str]) -> str:
    return " OR ".join(parts)


def _error_sql(error: str) -> str:
    name = _quoted(error)
    called = f"{_property(failure.STACK)} = {name} OR {_CLASS} = {name} OR endswith({_CLASS}, {_quoted('.' + error)})"
    return f"coalesce({called}, false) OR {_REASON} = {name} OR {_TEXT} = {name}"


def _search_sql(needle: str) -> str:
    columns = ("message_id", _REASON, _CLASS, "tags", "keys")
    return _any(f"contains(lower(coalesce({column}, '')), {_quoted(needle)})" for column in columns)
