"""Handler calls: the rows of a batch one record at a time, or the record batch as it is, and a verdict for each row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Final, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from pyromq.model import property_names as names
from pyromq.model.failure import Failure, FailureStory, story_after
from pyromq.model.names import RETRY_PREFIX
from pyromq.pipeline.arrow.columns import ARROW_TYPES, no_column
from pyromq.pipeline.arrow.slices import in_slices
from pyromq.pipeline.consuming.verdicts import STAGE_DECODE, Dead, Verdict, failed, verdict_of
from pyromq.pipeline.core.errors import SchemaError, WrongVerdictError
from pyromq.wire.property_text import split_items, value_of

NEEDED: Final = (
    *("topic", "broker", "queue_id", "queue_offset", "delivery_attempt", "flag", "commit_log_offset"),
    *("properties", "body"),
)
"""Columns that every row has: what it takes to handle it and to send it back."""


class Record(msgspec.Struct, gc=False):
    """A message as a handler gets it. ``topic`` is the one it was sent to, also when it comes again."""

    stored_topic: str
    broker: str
    queue_id: int
    queue_offset: int
    delivery_attempt: int  # 0 the first time
    flag: int
    position: int
    raw_properties: str
    body: bytes  # of a row that reaches a handler; None when it cannot be decompressed
    _story: FailureStory | None = None  # what its properties do not say yet

    @property
    def topic(self) -> str:
        is_again = self.stored_topic.startswith(RETRY_PREFIX)
        return (value_of(self.raw_properties, names.RETRY_TOPIC) if is_again else "") or self.stored_topic

    @property
    def tags(self) -> str:
        return value_of(self.raw_properties, names.TAGS)

    @property
    def keys(self) -> str:
        return value_of(self.raw_properties, names.KEYS)

    @property
    def message_id(self) -> str:
        return value_of(self.raw_properties, names.UNIQUE_KEY)

    @property
    def properties(self) -> dict[str, str]:
        return split_items(self.raw_properties)

    @property
    def failure_story(self) -> FailureStory | None:
        """Why it failed before, as consumers reported it; None if it did not, or nobody reported."""
        return self._story or FailureStory.of(self.properties)

    @property
    def unreported_story(self) -> FailureStory | None:
        """What its broker does not know yet."""
        return self._story

    def note_failure(self, failure: Failure) -> None:
        """It failed once more; it is sent back with that."""
        self._story = story_after(self.failure_story, failure)

    def get(self, name: str) -> str:
        """Empty when there is none of that name."""
        return value_of(self.raw_properties, name)


RecordHandler: TypeAlias = Callable[[Record], Verdict]
BatchHandler: TypeAlias = Callable[[pa.RecordBatch], "Iterable[Verdict] | None"]
Judged: TypeAlias = tuple[Record, Verdict]


def columns_of(extra: Iterable[str]) -> list[str]:
    """Columns that a handler gets, with those asked for. Raises SchemaError."""
    for name in extra:
        if name not in ARROW_TYPES:
            raise SchemaError(no_column(name))
    return [*NEEDED, *(name for name in dict.fromkeys(extra) if name not in NEEDED)]


def judge_records(batch: pa.RecordBatch, handler: RecordHandler, with_tracebacks: bool = False) -> list[Judged]:
    """The rows that are not done. What a handler raises concerns its row alone. Raises WrongVerdictError."""
    judged: list[Judged] = []
    for record in _records(batch):
        if record.body is None:
            judged.append((record, _UNREADABLE))
            continue
        try:
            verdict = handler(record)
        except Exception as error:  # the handler is the application's: this row alone comes again
            verdict = failed(error, with_traceback=with_tracebacks)
        if verdict is not None:
            judged.append((record, verdict_of(verdict)))
    return judged


def judge_batch(batch: pa.RecordBatch, handler: BatchHandler, with_tracebacks: bool = False) -> list[Judged]:
    """The rows that are not done; all come again when the handler raises. Raises WrongVerdictError."""
    verdicts: list[Verdict]
    try:
        returned = handler(batch)
        verdicts = [None] * batch.num_rows if returned is None else list(returned)
    except Exception as error:  # the handler is the application's: all of its rows come again
        verdicts = [failed(error, with_traceback=with_tracebacks)] * batch.num_rows
    if len(verdicts) != batch.num_rows:
        raise WrongVerdictError(f"the handler returned {len(verdicts)} verdicts for {batch.num_rows} rows")
    verdicts = [verdict_of(verdict) for verdict in verdicts]
    for row in pc.indices_nonzero(batch.column("body").is_null()).to_pylist():
        verdicts[row] = _UNREADABLE
    left = [row for row, verdict in enumerate(verdicts) if verdict is not None]
    return list(zip(_records(batch.take(left)), [verdicts[row] for row in left], strict=True)) if left else []


_UNREADABLE: Final = Dead("its body cannot be decompressed", STAGE_DECODE)


def _records(batch: pa.RecordBatch) -> Iterable[Record]:
    return chain.from_iterable(map(_records_of, in_slices(batch)))


def _records_of(batch: pa.RecordBatch) -> Iterable[Record]:
    return map(Record, *(batch.column(name).to_pylist() for name in NEEDED))
