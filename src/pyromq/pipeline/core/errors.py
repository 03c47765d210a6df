"""Errors of the pipeline beside those in ``pyromq.errors``; their texts end a query, so they say what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyromq.errors import ConfigError, MQError

_SHOWN: Final = 5  # queues that a text names; it counts the others


class OptionError(ConfigError):
    """Options that cannot be used; the text names each of them. ``option`` and ``reason`` are those of the first."""

    def __init__(self, option: str, reason: str, *more: tuple[str, str]) -> None:
        self.option = option
        self.reason = reason
        self.mistakes = ((option, reason), *more)
        super().__init__("; also ".join(f"option {name}: {why}" for name, why in self.mistakes))

    @classmethod
    def joined(cls, first: OptionError, second: OptionError) -> OptionError:
        """One error with the mistakes of both."""
        (option, reason), *more = (*first.mistakes, *second.mistakes)
        return cls(option, reason, *more)


class BackwardRangeError(ConfigError):
    """A batch read whose start lies beyond its end, so that it would read nothing."""

    def __init__(self, ranges: Sequence[str]) -> None:
        super().__init__(f"the read starts beyond its end: {_first_of(ranges)}. Choose an earlier start or a later end")
        self.ranges = tuple(ranges)


class SchemaError(ConfigError):
    """A schema that asks for what the source does not have."""


class CorruptRowError(MQError):
    """A body that cannot be decoded, where the query is not to go on."""

    def __init__(self, topic: str, broker: str, queue: int, offset: int, reason: str) -> None:
        super().__init__(
            f"the message at offset {offset} of {topic}, queue {queue} of {broker}, cannot be decoded: {reason}. To go "
            "on, set the option payloadMode to permissive (column _error) or dropmalformed"
        )
        self.topic, self.broker, self.queue, self.offset, self.reason = topic, broker, queue, offset, reason


class DataLossError(MQError):
    """Messages that the query was to read are gone from the brokers."""

    def __init__(self, losses: Sequence[str]) -> None:
        super().__init__(
            f"messages that this query was to read are gone: {_first_of(losses)}. "
            "To continue without them, set the option failOnDataLoss to false; each gap is then logged"
        )
        self.losses = tuple(losses)


class GroupSharedError(ConfigError):
    """A query with ``exclusive`` whose group is used by others."""

    def __init__(self, group: str, others: str) -> None:
        super().__init__(
            f"group {group} is used by {others}, and the query is exclusive (option exclusive): stop them, or give the "
            "query a group of its own"
        )
        self.group = group


class SourceUnreachableError(MQError):
    """Brokers could not be asked for longer than ``retryTimeout``."""

    def __init__(self, what: str, tried_ms: int, error: BaseException) -> None:
        super().__init__(
            f"{what} failed for {tried_ms / 1000:.1f} s (option retryTimeout); the last error: {error}. "
            "When the query is started again, it continues where it stopped"
        )
        self.tried_ms = tried_ms


class WrongVerdictError(ConfigError):
    """A handler of ``consume`` returned what is no verdict: a mistake of its code, which no retry mends."""


class TooManyFailuresError(MQError):
    """So many rows failed at their first delivery that the query stops before all of them are sent back."""

    def __init__(self, failed: int, rows: int, first_error: str) -> None:
        super().__init__(
            f"{failed} of {rows} messages failed at their first delivery; the first error: {first_error}. The group "
            "stays where it is: mend the handler and start again, or set failure_share_max to 1.0 to go on regardless"
        )
        self.failed, self.rows, self.first_error = failed, rows, first_error


def _first_of(texts: Sequence[str]) -> str:
    left = len(texts) - _SHOWN
    return "; ".join(texts[:_SHOWN]) + (f"; and {left} more" if left > 0 else "")
