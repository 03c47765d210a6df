"""Queues and places as operators type them for ``pyromq group reset`` and ``park``."""

from __future__ import annotations

import click
import pytest

from pyromq.cli import clock
from pyromq.cli.main import main
from pyromq.cli.nouns.group_moves import ResetTarget, parse_queue
from pyromq.model.queue import QueueId
from pyromq.operate.offsets import EARLIEST, LATEST
from pyromq.testing import ManualClock

NOW_MS = 1_700_000_000_000


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "in_use", ManualClock(NOW_MS))


def test_a_queue_is_a_broker_and_a_number() -> None:
    assert parse_queue("broker-a:3", "orders") == QueueId("orders", "broker-a", 3)
    for text in ("broker-a", ":3", "broker-a:x", ""):
        with pytest.raises(click.BadParameter, match="is not a queue"):
            parse_queue(text, "orders")


@pytest.mark.parametrize(
    ("target", "time_ms"),
    [
        (ResetTarget(to_time="2h ago"), NOW_MS - 7_200_000),
        (ResetTarget(to_begin=True), EARLIEST),
        (ResetTarget(to_end=True), LATEST),
        (ResetTarget(to_offset=0), LATEST),
    ],
)
def test_a_reset_goes_to_a_time(target: ResetTarget, time_ms: int) -> None:
    assert target.time_ms() == time_ms


@pytest.mark.parametrize("places", [(), ("--to-begin", "--to-end"), ("--to-offset", "0", "--to-time", "now")])
def test_a_reset_goes_to_one_place(capsys: pytest.CaptureFixture[str], places: tuple[str, ...]) -> None:
    assert main(["group", "reset", "billing", "--topic", "orders", *places]) == 1
    assert "give one of --to-time, --to-offset, --to-begin, --to-end" in " ".join(capsys.readouterr().err.split())
