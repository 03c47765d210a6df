"""Run the tests in phases: ``python -m tests.running test`` or ``more``, as ``make test`` and ``make test-more`` do.

Every phase runs, whatever the one before it said. What failed, also in its set-up, is run once more when all phases
have ended, by itself: what passes then is *flaky*, is told by name, and is to be mended. The exit code is 1 if a test
failed twice or a process was too large.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import msgspec

from tests.running.memory import LIMIT_MB, verdict
from tests.running.phases import MORE, TEST, Phase, other_mode
from tests.running.results import Results, missing_line

FOLDER = Path(".cache/tests")
FLAKY = FOLDER / "flaky.txt"
"""Names of flaky tests are appended here; ``.ci/run`` counts them."""

AGAIN_MAX = 40  # what fails in larger numbers is no matter of a busy machine
SLOWEST = 20


class Outcome(NamedTuple):
    """A phase and what came of it."""

    phase: Phase
    results: Results
    failed: list[str]
    flaky: list[str]
    is_broken: bool  # pytest did not end as it should

    @property
    def flaky_causes(self) -> list[str]:
        """What is to be mended: flaky tests, and set-ups that several of them share."""
        return self.results.causes(self.flaky)

    @property
    def is_good(self) -> bool:
        return not (self.failed or self.is_broken or self.results.is_above_limit)


class Run:
    """pytest as a process; ``log`` takes its output, which is shown when it has ended."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str], name: str, log: Path | None = None):
        self._file, self._log = FOLDER / f"{name}.json", log
        self._file.unlink(missing_ok=True)
        command = [sys.executable, "-m", "pytest", *arguments, "--results", str(self._file)]
        with log.open("w") if log else nullcontext() as out:
            self._process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=out, stderr=out)

    def ended(self) -> tuple[int, Results]:
        """The exit code of pytest and what it found, once it has ended."""
        code = self._process.wait()
        if self._log:
            print(self._log.read_text(encoding="utf-8", errors="replace"), flush=True)
        found = msgspec.json.decode(self._file.read_bytes(), type=Results) if self._file.exists() else Results()
        return code, found


def begin(phase: Phase, more: Sequence[str] = ()) -> Run:
    """Start a phase; what runs beside the others shows its output when it has ended."""
    log = FOLDER / f"{phase.slug}.log" if phase.is_beside else None
    print(f"\n=== {phase.name}{', beside the others' if log else ''} ===", flush=True)
    return Run([*phase.arguments, *more], phase.environment, phase.slug, log)


def judge(phase: Phase, code: int, results: Results, more: Sequence[str] = ()) -> Outcome:
    """Run once more what failed in a phase, one after the other in one process."""
    is_broken = code not in (0, 1, 5)  # 5: nothing was selected
    failed, flaky = results.failed, []
    if failed and len(results.causes(failed)) <= AGAIN_MAX and not is_broken:
        print(f"\n=== {phase.name}: what failed, once more and by itself ===", flush=True)
        names = FOLDER / "failed.txt"
        names.write_text("\n".join(failed) + "\n", encoding="utf-8")
        _, again = Run([f"@{names}", *more], phase.environment, "again").ended()
        passed = set(again.passed)
        flaky = [name for name in failed if name in passed]
        failed = [name for name in failed if name not in passed]
    return Outcome(phase, results, failed, flaky, is_broken)


def run_phases(phases: Sequence[Phase], more: Sequence[str] = ()) -> list[Outcome]:
    """All of them, whatever the one before said; those that stand beside the others from the start.

    What failed waits until all have ended: a test that had too little time has the machine to itself.
    """
    beside = [(phase, begin(phase, more)) for phase in phases if phase.is_beside]
    ended = [(phase, begin(phase, more).ended()) for phase in phases if not phase.is_beside]
    ended += [(phase, run.ended()) for phase, run in beside]
    return [judge(phase, code, results, more) for phase, (code, results) in ended]


def summary(outcomes: Sequence[Outcome], notes: Sequence[str], seconds: float) -> list[str]:
    """Lines at the end of everything; the last one is about memory."""
    slowest = sorted((each for outcome in outcomes for each in outcome.results.slowest(SLOWEST)), reverse=True)
    missing: dict[str, int] = {}
    for outcome in outcomes:
        for reason, count in outcome.results.missing.items():
            missing[reason] = missing.get(reason, 0) + count
    flaky = [cause for outcome in outcomes for cause in outcome.flaky_causes]
    failed = [name for outcome in outcomes for name in outcome.failed]
    broken = [outcome.phase.name for outcome in outcomes if outcome.is_broken]
    passed = sum(len(outcome.results.passed) + len(outcome.flaky) for outcome in outcomes)
    memory = "; ".join(f"{outcome.phase.name}: {outcome.results.memory}" for outcome in outcomes)
    return [
        f"\n=== the {SLOWEST} slowest ===",
        *(f"{took:7.1f} s  {name}" for took, name in slowest[:SLOWEST]),
        "",
        *([missing_line(missing)] if missing else []),
        *notes,
        *(f"FLAKY: {name} failed, and passed when run again" for name in flaky),
        *(f"FAILED: {name}" for name in failed),
        *(f"BROKEN: pytest did not come to an end ({name})" for name in broken),
        f"{passed:,} passed, {len(failed)} failed, {len(flaky)} flaky in {seconds / 60:.1f} minutes",
        f"peak memory: {memory}; {verdict(LIMIT_MB, is_above=any(each.results.is_above_limit for each in outcomes))}",
    ]


def main(arguments: Sequence[str]) -> int:
    if not arguments or arguments[0] not in ("test", "more"):
        print("python -m tests.running test|more [options of pytest]")
        return 2
    began, phases, notes = time.monotonic(), list(TEST if arguments[0] == "test" else MORE), []
    if arguments[0] == "more":
        found = other_mode(os.environ)
        if isinstance(found, Phase):
            phases.insert(0, found)
        else:
            notes.append(found)
    FOLDER.mkdir(parents=True, exist_ok=True)
    outcomes = run_phases(phases, arguments[1:])
    with FLAKY.open("a", encoding="utf-8") as file:
        file.writelines(f"{cause}\n" for outcome in outcomes for cause in outcome.flaky_causes)
    print("\n".join(summary(outcomes, notes, time.monotonic() - began)), flush=True)
    return 0 if all(outcome.is_good for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
