"""Verdicts of a handler about a row: done, retry later, or dead letter."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from pyromq.client.consumer.rules.failure_capture import Raised, raised_of
from pyromq.errors import ConfigError
from pyromq.model.message import DELAY_LEVEL_MAX
from pyromq.pipeline.core.errors import WrongVerdictError

STAGE_HANDLER: Final = "handler"
STAGE_ATTEMPTS: Final = "attempts"
STAGE_DECODE: Final = "decode"
_SHOWN_MAX: Final = 100  # characters of a wrong verdict


@dataclass(frozen=True, slots=True)
class Retry:
    """Deliver it again: after the delay of that level, or as the ladder of attempts has it (0)."""

    delay_level: int = 0
    reason: str = ""
    raised: Raised | None = field(default=None, repr=False, compare=False)  # what the handler raised, if it did

    def __post_init__(self) -> None:
        if not 0 <= self.delay_level <= DELAY_LEVEL_MAX:
            raise ConfigError(
                f"delay level {self.delay_level}: levels are numbers from 1 on, 0 leaves it to the broker"
            )


@dataclass(frozen=True, slots=True)
class Dead:
    """Put it to the dead letters of the group, with the reason."""

    reason: str
    stage: str = STAGE_HANDLER


DONE: Final = None
Verdict: TypeAlias = Retry | Dead | None
"""None is done."""


def verdict_of(outcome: object) -> Verdict:
    """What a handler returned. Raises WrongVerdictError for what is no verdict."""
    if outcome is None or isinstance(outcome, Retry | Dead):
        return outcome
    text = f"a handler must return None (done), Retry or Dead, not {type(outcome).__name__}"
    raise WrongVerdictError(f"{text}: {repr(outcome)[:_SHOWN_MAX]}")


def failed(error: Exception, *, with_traceback: bool = False) -> Retry:
    """Verdict for a row whose handler raised."""
    raised = raised_of(error, with_traceback=with_traceback)
    return Retry(reason=f"{type(error).__name__}: {raised.text}", raised=raised)
