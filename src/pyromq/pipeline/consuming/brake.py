"""Brake of a consuming query (circuit breaker): it stops when too many messages fail at their first delivery.

A task looks after every record batch, before it sends failures back, so a handler that fails for all costs nobody an
attempt. What is too little for one task is added up by the driver: when ``ROWS_MIN`` rows are together, and too many of
them failed, the next batch is refused before it begins. Messages that come again do not count: those that fail always
come together, and are what retries are for. What a handler declares dead was decided, and does not count either.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pyromq.pipeline.consuming.rows import Judged
from pyromq.pipeline.consuming.verdicts import Retry
from pyromq.pipeline.core.checkpoint_log import CheckpointLog
from pyromq.pipeline.core.errors import TooManyFailuresError

logger = logging.getLogger(__name__)

ROWS_MIN: Final = 100
_FILE: Final = "brake"
_TEXT_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class FirstTries:
    """Messages at their first delivery: how many, how many of them failed, and the first error."""

    rows: int = 0
    failed: int = 0
    first_error: str = ""

    def plus(self, other: FirstTries) -> FirstTries:
        return FirstTries(self.rows + other.rows, self.failed + other.failed, self.first_error or other.first_error)

    def is_too_bad(self, share_max: float) -> bool:
        return self.rows >= ROWS_MIN and self.failed > share_max * self.rows

    def check(self, share_max: float) -> None:
        """Stop the query when too large a share of first deliveries failed. Raises TooManyFailuresError."""
        if self.is_too_bad(share_max):
            raise TooManyFailuresError(self.failed, self.rows, self.first_error)


NO_TRIES: Final = FirstTries()


def first_tries(batch: pa.RecordBatch, judged: Iterable[Judged], masked: Callable[[str], str] = str) -> FirstTries:
    """Counts of one record batch and of its rows that are not done; ``masked`` gives what may be shown of an error."""
    again = pc.sum(pc.greater(batch.column("delivery_attempt"), 0)).as_py() or 0
    failed = [
        verdict.reason for record, verdict in judged if isinstance(verdict, Retry) and not record.delivery_attempt
    ]
    return FirstTries(batch.num_rows - again, len(failed), masked(failed[0])[:_TEXT_MAX] if failed else "")


class BrakeLog:
    """What the driver adds up, in a small file beside the checkpoint: Spark makes a new process whenever it likes."""

    def __init__(self, log: CheckpointLog, group: str, share_max: float) -> None:
        self._log = log
        self._group = group
        self._share_max = share_max

    def check(self) -> None:
        """Raise TooManyFailuresError once for what was added up: whoever starts the query again has seen it."""
        found = self._read()
        if found.is_too_bad(self._share_max):
            self._write(NO_TRIES)
            found.check(self._share_max)

    def add(self, batch: int, tries: FirstTries) -> None:
        """The rows of one batch that is done; failures are logged with the first error."""
        if tries.failed:
            logger.warning(
                "messages failed at their first delivery: group=%s batch=%d failed=%d of=%d first_error=%s",
                *(self._group, batch, tries.failed, tries.rows, tries.first_error),
            )
        before = self._read()
        together = tries if before.rows >= ROWS_MIN else before.plus(tries)
        if together != before:
            self._write(together)

    def _read(self) -> FirstTries:
        text = self._log.read(_FILE)
        return FirstTries(**json.loads(text)) if text else NO_TRIES

    def _write(self, tries: FirstTries) -> None:
        self._log.write(_FILE, json.dumps(asdict(tries)), durable=False)
