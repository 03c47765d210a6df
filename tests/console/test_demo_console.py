"""``make demo-console``: an address and a password, groups, dead letters grouped by error; Ctrl-C ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

pytestmark = pytest.mark.integration

PROGRAM = Path(__file__).parents[2] / "examples" / "demo_console.py"


def test_a_newcomer_finds_the_dead_letters_grouped_by_error(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    (folder / "commitlog").mkdir(parents=True)  # as if a demo had run, so that none runs first
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    environment.pop("PYROMQ_CONSOLE_PASSWORD", None)
    with subprocess.Popen(
        [sys.executable, str(PROGRAM), str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        told: dict[str, str] = {}
        lines = []
        try:
            for line in process.stdout:
                lines.append(line)
                words = line.split()
                if len(words) == 2 and words[0] in ("console", "password"):
                    told[words[0]] = words[1]
                if "dead letters of billing" in line:
                    break
            assert set(told) == {"console", "password"}, "".join(lines)
            with httpx.Client(base_url=told["console"], follow_redirects=True, timeout=30) as browser:
                browser.headers["Origin"] = told["console"]
                signed_in = browser.post("/login", data={"name": "admin", "password": told["password"], "next": ""})
                assert signed_in.status_code == 200 and "Sign out" in signed_in.text
                groups = browser.get("/groups").text
                assert all(name in groups for name in ("billing", "shipping", "analytics", "ledger"))
                letters = browser.get("/dead-letters/billing").text
                assert all(name in letters for name in ("CardRefusedError", "KeyError", "ValueError"))
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert process.stderr.read() == ""
