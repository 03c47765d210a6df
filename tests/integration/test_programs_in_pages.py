"""Programs in pages that need servers run as their readers run them: each a process, until Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Timer

import pytest

from pyromq.testing import LoopbackBroker
from tests.unit.test_docs import Block, blocks_of

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
NEEDS_SERVERS = "<!-- no-run: needs a running broker -->"
PAGES = (
    "README.md",
    "docs/start.md",
    "docs/tutorial.md",
    *(f"docs/coming-from/{name}.md" for name in ("rocketmq-java", "aiokafka", "celery", "frameworks")),
    *(f"docs/how-to/{name}.md" for name in ("dramatiq", "taskiq")),
)
QUIET_S = 20  # a program that says nothing for so long waits for messages
END_S = 120


def programs() -> Iterator[tuple[str, Block]]:
    for page in PAGES:
        for block in blocks_of((ROOT / page).read_text(encoding="utf-8")):
            if block.info == "python" and block.before == NEEDS_SERVERS:
                yield page, block


@pytest.fixture(scope="module")
def nameserver() -> Iterator[str]:
    with LoopbackBroker() as broker:
        yield broker.nameserver


@pytest.mark.parametrize(
    ("page", "block"), list(programs()), ids=lambda value: value if isinstance(value, str) else value.line
)
def test_a_program_runs_until_ctrl_c(page: str, block: Block, nameserver: str) -> None:
    code = block.code.replace("127.0.0.1:9876", nameserver)
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    quiet, end = Timer(QUIET_S, process.send_signal, [signal.SIGINT]), Timer(END_S, process.kill)
    with process:
        assert process.stdout is not None and process.stderr is not None
        quiet.start()
        end.start()
        try:
            process.stdout.readline()
            if ".run()" in code:
                process.send_signal(signal.SIGINT)
            _, errors = process.communicate()
        finally:
            quiet.cancel()
            end.cancel()
    assert process.returncode == 0, errors
