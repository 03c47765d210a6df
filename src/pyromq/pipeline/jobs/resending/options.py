"""Keyword options of ``replay`` and ``redrive``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from pyromq.clock import Clock, SystemClock
from pyromq.operate.resend.pacing import check_rate
from pyromq.pipeline.jobs.common.bars import Tell, progress_here
from pyromq.pipeline.jobs.common.patching import Patch


class ReplayOptions(TypedDict, total=False):
    """What ``replay`` takes as keywords; ``ReplaySettings`` has meanings and defaults."""

    rate: float | None
    name: str
    dry_run: bool
    count_max: int
    tell: Tell
    clock: Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """Settings of a replay. Raises ConfigError."""

    rate: float | None = None  # messages a second at most; None: as fast as brokers take them
    name: str = ""  # of this replay: run again under it, it does not send what it sent before
    dry_run: bool = True  # only count and show
    count_max: int = 0  # messages to send at most; 0: all
    tell: Tell = field(default_factory=progress_here)
    clock: Clock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        check_rate(self.rate)


class RedriveOptions(TypedDict, total=False):
    """What ``redrive`` takes as keywords; ``RedriveSettings`` has meanings and defaults."""

    nameserver: str
    where: str
    errors: Sequence[str]
    begin: int | None
    end: int | Mapping[str, object] | None
    dry_run: bool
    canary: int
    canary_wait_s: float
    rate: float | None
    patch: Patch | None
    only_group: bool
    options: Mapping[str, str] | None
    tell: Tell
    sleep: Callable[[float], None]
    clock: Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveSettings:
    """Settings of a redrive. Raises ConfigError."""

    nameserver: str = ""
    where: str = ""  # condition over the source's columns: properties['DLQ_ERROR'] LIKE '%timeout%'
    errors: Sequence[str] = ()  # only letters with one of these: classes, with or without their module, or stack hashes
    begin: int | None = None  # milliseconds since 1970: dead letters of then or later; None: from the oldest on
    end: int | Mapping[str, object] | None = None  # before that time, or these offsets; None: all there are now
    dry_run: bool = True  # only say what would become of each
    canary: int = 0  # dead letters to send first, watching what becomes of them; 0: no canary
    canary_wait_s: float = 30.0  # how long to watch them
    rate: float | None = None  # messages a second at most; None: as fast as brokers take them
    patch: Patch | None = None  # changes each dead letter before it is sent
    only_group: bool = False  # to this group alone; otherwise every group of the topic gets the messages
    options: Mapping[str, str] | None = None  # of the source
    tell: Tell = field(default_factory=progress_here)
    sleep: Callable[[float], None] = time.sleep
    clock: Clock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        check_rate(self.rate)
        if isinstance(self.errors, str):  # one text is one of them, not its letters
            object.__setattr__(self, "errors", (self.errors,) if self.errors else ())
