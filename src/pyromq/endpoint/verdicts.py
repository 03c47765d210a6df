"""Verdicts of probes: live, ready, started; each with its reasons.

live      the event loop turns; 503: restart the process. A server that starts or recovers is live.
ready     clients can use it; 503: not yet, or not now. Not a reason to restart it.
startup   the start is over; until then only this probe should be asked
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from pyromq.clock import Clock
from pyromq.endpoint.sources import MetricsSource
from pyromq.metrics.health import Finding, HealthReport, Severity

BEAT_S: Final = 0.5
SILENCE_S_MAX: Final = 15.0
ASK_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class HealthVerdict:
    ok: bool
    check: str
    reasons: tuple[str, ...] = ()  # why not
    warnings: tuple[str, ...] = ()
    note: str = ""

    @property
    def body(self) -> bytes:
        fields: dict[str, object] = {"status": "ok" if self.ok else "failed", "check": self.check}
        fields |= {"reasons": self.reasons, "warnings": self.warnings}
        if self.note:
            fields["note"] = self.note
        return msgspec.json.encode(fields) + b"\n"


class LoopBeat:
    """A timer of the servers' loop; the endpoint's thread looks when it came last."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at_s = clock.monotonic_s()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._at_s = self._clock.monotonic_s()
        self._timer = asyncio.get_running_loop().call_later(BEAT_S, self.start)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    @property
    def silence_s(self) -> float:
        return max(0.0, self._clock.monotonic_s() - self._at_s - BEAT_S)


class Probes:
    """On the thread of the endpoint; ``ask`` runs a function on the servers' loop."""

    def __init__(
        self,
        sources: Sequence[MetricsSource],
        beat: LoopBeat,
        ask: Callable[[Callable[[], list[HealthReport]]], Awaitable[list[HealthReport]]],
        *,
        silence_s_max: float = SILENCE_S_MAX,
        ask_s: float = ASK_S,
    ) -> None:
        self._sources = sources
        self._beat = beat
        self._ask = ask
        self._silence_s_max = silence_s_max
        self._ask_s = ask_s

    async def live(self) -> HealthVerdict:
        startup = self._not_started()
        if startup:
            return HealthVerdict(True, "live", note="; ".join(startup))
        silence_s = self._beat.silence_s
        if silence_s > self._silence_s_max:
            return HealthVerdict(False, "live", (f"the event loop has not turned for {silence_s:.0f} s",))
        return HealthVerdict(True, "live")

    async def startup(self) -> HealthVerdict:
        waiting = self._not_started()
        return HealthVerdict(not waiting, "startup", tuple(waiting))

    async def ready(self) -> HealthVerdict:
        if waiting := self._not_started():
            return HealthVerdict(False, "ready", tuple(waiting))
        try:
            async with asyncio.timeout(self._ask_s):
                reports = await self._ask(self._reports)
        except TimeoutError:
            text = f"the event loop did not answer for {self._ask_s:g} s: it is kept busy, or stuck"
            return HealthVerdict(False, "ready", (text,))
        reasons = tuple(reason for report in reports for reason in report.reasons)
        findings = [finding for report in reports for finding in report.findings]
        return HealthVerdict(not reasons, "ready", reasons, tuple(map(_shown, findings)))

    def _reports(self) -> list[HealthReport]:
        return [source.health() for source in self._sources]

    def _not_started(self) -> list[str]:
        if not self._sources:
            return ["the servers of this process are not there yet"]
        return [startup.text for source in self._sources if not (startup := source.startup()).is_done]


def _shown(finding: Finding) -> str:
    return finding.text if finding.severity is not Severity.BAD else f"{finding.severity.value}: {finding.text}"
