"""What ``make demo`` shows is true: it fails when an order is lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]


def test_every_order_of_the_demo_is_accounted_for() -> None:
    command = [sys.executable, str(ROOT / "examples" / "orders_survive_a_crash.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Every order is accounted for." in done.stdout
    for order in (777, 1_999, 3_141, 4_242, 5_555):
        lines = [line for line in done.stdout.splitlines() if f" order-{order} " in line]
        assert any(" 3  " in line for line in lines), "given up after three deliveries"
        assert any(" sent " in line for line in lines)
