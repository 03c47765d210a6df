"""Keyword options of ``report``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from pyromq.clock import Clock, SystemClock
from pyromq.pipeline.jobs.common.bars import Tell, progress_here
from pyromq.wire.trace import TRACE_TOPIC


class ReportOptions(TypedDict, total=False):
    """What ``report`` takes as keywords; ``ReportSettings`` has meanings and defaults."""

    nameserver: str
    groups: Sequence[str]
    begin: int | None
    end: int | None
    trace_topic: str
    options: Mapping[str, str] | None
    tell: Tell
    clock: Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSettings:
    nameserver: str = ""
    groups: Sequence[str] = ()  # to report although they write no trace
    begin: int | None = None  # milliseconds since 1970: messages stored then or later; None: from the oldest on
    end: int | None = None  # messages stored before; None: all
    trace_topic: str = TRACE_TOPIC
    options: Mapping[str, str] | None = None  # of the source
    tell: Tell = field(default_factory=progress_here)
    clock: Clock = field(default_factory=SystemClock)
