"""Errors of the pipeline beside those in ``pyromq.errors``; their texts end a query, so they say what to do."""

from __future__ import annotations

from collections.abc import Sequence

from pyromq.errors import ConfigError, MQError


class OptionError(ConfigError):
    """An option of the source that cannot be used; its text begins with the option's name."""

    def __init__(self, option: str, reason: str) -> None:
        super().__init__(f"option {option}: {reason}")
        self.option = option
        self.reason = reason


class SchemaError(ConfigError):
    """A schema that asks for what the source does not have."""


class DataLossError(MQError):
    """Messages that the query was to read are gone from the brokers."""

    def __init__(self, losses: Sequence[str]) -> None:
        shown = "; ".join(losses[:5]) + (f"; and {len(losses) - 5} more" if len(losses) > 5 else "")
        super().__init__(
            f"messages that this query was to read are gone: {shown}. "
            "To continue without them, set the option failOnDataLoss to false; each gap is then logged"
        )
        self.losses = tuple(losses)


class SourceUnreachableError(MQError):
    """Brokers could not be asked for longer than ``retryTimeout``."""

    def __init__(self, what: str, tried_ms: int, error: BaseException) -> None:
        super().__init__(
            f"{what} failed for {tried_ms / 1000:.1f} s (option retryTimeout); the last error: {error}. "
            "When the query is started again, it continues where it stopped"
        )
        self.tried_ms = tried_ms
