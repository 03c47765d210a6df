"""Keyword options of ``consume``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypedDict

from pyromq.client.consumer.rules.failure_capture import Mask
from pyromq.client.core.settings import require_number
from pyromq.errors import ConfigError
from pyromq.model.failure import TRACEBACK_BYTES_MAX

ATTEMPTS_MAX: Final = 16
STARTS: Final = {"latest": "latest", "earliest": "group"}
"""Where a group without progress begins, as the source has it."""


class ConsumeOptions(TypedDict, total=False):
    """What ``consume`` takes as keywords; ``ConsumeSettings`` has meanings and defaults."""

    nameserver: str
    batches: bool
    columns: Sequence[str]
    start: str
    attempts_max: int
    failure_share_max: float
    checkpoint: str
    trigger: Mapping[str, Any] | None
    options: Mapping[str, object] | None
    name: str
    code_version: str
    traceback_bytes: int
    mask_error: Mask | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeSettings:
    """Settings of a consuming query. Raises ConfigError."""

    nameserver: str = ""
    batches: bool = False  # whether the handler takes record batches of Arrow instead of records
    columns: Sequence[str] = ()  # beside those that every row has
    start: str = "latest"  # of a group that has no progress yet; or earliest
    attempts_max: int = ATTEMPTS_MAX  # a message that failed so often after its first time is dead
    failure_share_max: float = 0.5  # of 100 and more first deliveries: above it the query stops; 1.0: never
    checkpoint: str = ""  # empty: a temporary folder, and a restart goes on from the group's progress at the brokers
    trigger: Mapping[str, Any] | None = None  # arguments of Spark's ``trigger``; None: as fast as possible
    options: Mapping[str, object] | None = None  # of the source
    name: str = ""  # of the query
    code_version: str = ""  # of the handler, in what failed rows say; PYROMQ_CODE_VERSION when empty
    traceback_bytes: int = 0  # of the handler's traceback that travel with a failed row, at most 3072; 0: none
    mask_error: Mask | None = None  # gets the text of an error, returns what may be stored of it

    def __post_init__(self) -> None:
        if self.start not in STARTS:
            raise ConfigError(f"start must be latest or earliest, not {self.start!r}")
        if self.attempts_max < 0:
            raise ConfigError(f"attempts_max must not be negative: {self.attempts_max}")
        if not 0 <= self.failure_share_max <= 1:
            raise ConfigError(f"failure_share_max must be from 0 to 1, not {self.failure_share_max}")
        require_number("traceback_bytes", self.traceback_bytes, 0, TRACEBACK_BYTES_MAX)
        if self.mask_error is not None and not callable(self.mask_error):
            raise ConfigError(f"mask_error must be a function, not {type(self.mask_error).__name__}")
