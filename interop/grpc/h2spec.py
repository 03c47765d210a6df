"""HTTP/2 conformance by h2spec, from Go's module proxy; ``make h2spec`` tries our port, with the core and without."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interop.grpc.clients import HERE, run
from interop.jars import cache_folder
from interop.pyromq_server import PyroMQServer
from pyromq.testing import free_port

CASES: Final = 145
ENOUGH: Final = 140
_TOTALS: Final = re.compile(r"(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed")
_RUN_S: Final = 300


@dataclass(frozen=True, slots=True)
class Conformance:
    """How many cases pass, and what the tool says of the others."""

    cases: int
    passed: int
    failures: str
    is_whole: bool = True  # the tool came to its end

    def __str__(self) -> str:
        late = "" if self.is_whole else f" when its {_RUN_S} s were over"
        return f"{self.passed} of {self.cases} cases{late}"


def h2spec(endpoint: str) -> Conformance:
    """Run every case against a server that listens there."""
    tool = cache_folder() / "grpc" / "h2spec"
    if not tool.exists():
        run(["go", "build", "-o", tool, "github.com/summerwind/h2spec/cmd/h2spec"], HERE / "tools")
    host, _, port = endpoint.rpartition(":")
    command = [tool, "-h", host, "-p", port, "-o", "5"]
    try:
        said = subprocess.run(command, capture_output=True, timeout=_RUN_S).stdout.decode(errors="replace")
    except subprocess.TimeoutExpired as late:  # a case that waits for a server which never answers
        said = (late.stdout or b"").decode(errors="replace")
    found = _TOTALS.search(said)
    if found is None:
        return Conformance(CASES, said.count("✔"), said[-1_000:], is_whole=False)
    return Conformance(int(found[1]), int(found[2]), said.partition("Failures:")[2].strip()[:4_000])


def main() -> int:
    is_enough = True
    for is_pure in (False, True):
        with (
            tempfile.TemporaryDirectory() as folder,
            PyroMQServer(Path(folder), grpc_port=free_port(), is_pure=is_pure) as server,
        ):
            found = h2spec(server.endpoint)
        form = "without the compiled core" if is_pure else "with the compiled core"
        print(f"h2spec, {form}: {found} passed\n{found.failures}".rstrip())  # noqa: T201
        is_enough = is_enough and found.passed >= ENOUGH
    return 0 if is_enough else 1


if __name__ == "__main__":
    sys.exit(main())
