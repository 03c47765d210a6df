from __future__ import annotations

from io import StringIO

import pytest

from pyromq.cli import clock
from pyromq.cli.nouns.group_view import show_group
from pyromq.testing import ManualClock

NOW_MS = 1_700_000_000_000


def test_a_listener_is_as_old_as_the_clock_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "in_use", ManualClock(NOW_MS))
    queue = {
        "topic": "orders", "broker": "broker-a", "queue": 3, "committed": 7, "end": 9, "lag": 2, "client_id": "c",
        "offset": 7, "message_id": "ID", "keys": [], "age_ms": 60_000, "attempt": 1, "stage": "in the listener",
        "since_ms": NOW_MS - 5_000, "error": "ValueError: no", "stack": "",
    }  # fmt: skip
    out = StringIO()
    show_group(out, {"group": "billing", "lag": 2, "members": [], "queues": [queue]}, stacks=False)
    assert "ID, 1 min old, attempt 2, in the listener for 5 s, ValueError: no" in out.getvalue()
    assert "no member of group billing is connected, lag 2" in out.getvalue()
