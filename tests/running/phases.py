"""Phases of ``make test`` and ``make test-more``: which tests, in which mode, how many processes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import NamedTuple

SWITCH = "PYROMQ_PURE"
PARALLEL = ("-n", str((os.cpu_count() or 1) + 1), "--dist", "worksteal")  # tests wait half of their time
LONG_ROUNDS = {"PYROMQ_CRASH_ROUNDS": "32", "PYROMQ_REPLICATION_ROUNDS": "2"}


class Phase(NamedTuple):
    """One run of pytest."""

    name: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = {}
    is_beside: bool = False  # it mostly waits, so it runs while the others do; its output comes after theirs

    @property
    def slug(self) -> str:
        """Its name for files."""
        return "-".join(re.findall(r"\w+", self.name.lower()))


TEST = (  # two runs of pytest: each worker holds all tests of its run in memory, and what they leave
    Phase("units", (*PARALLEL, "tests/unit", "-m", "not check and not more")),
    Phase("tests", (*PARALLEL, "--ignore", "tests/spark", "--ignore", "tests/unit", "-m", "not check and not more")),
    Phase("Spark", ("tests/spark", "-m", "not more"), is_beside=True),
)
MORE = (
    Phase(
        "site, browsers, long rounds",
        (
            *PARALLEL,
            "tests/console",
            "tests/integration",
            "tests/faults",
            "tests/sim",
            "tests/upgrade",
            "-m",
            "more or rounds",
        ),
        LONG_ROUNDS,
    ),
    Phase("Spark in the Python lane", ("tests/spark", "-m", "more"), is_beside=True),
)
BOTH_MODES = ("tests/unit", "tests/crash", "tests/conformance", "tests/integration")  # folders that have such tests


def is_on(switch: str) -> bool:
    return switch.strip().lower() in ("1", "true", "yes", "on")


def other_mode(environment: Mapping[str, str]) -> Phase | str:
    """What must hold with the compiled core and without, in the mode that ``make test`` did not have; or why not."""
    if is_on(environment.get(SWITCH, "")):
        chosen, name = "", "with the compiled core"
    else:
        chosen, name = "1", "without the compiled core"
    if find_spec("pyromq_core") is None:
        return "one mode only: the compiled core is not built (make setup builds it where cargo is installed)"
    return Phase(name, (*PARALLEL, *BOTH_MODES, "-m", "both_modes and not more and not check"), {SWITCH: chosen})
