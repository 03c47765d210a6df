"""``pyromq settings``: what a running broker is set to, and changing it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from pyromq import Admin
from pyromq.cli.main import main
from pyromq.testing import LoopbackBroker

pytestmark = pytest.mark.integration


@pytest.fixture
def broker() -> Iterator[LoopbackBroker]:
    with LoopbackBroker() as broker:
        yield broker


def test_settings_are_listed(broker: LoopbackBroker, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", "ls", "broker-a", "--containing", "RESERVED", "-n", broker.nameserver, "-o", "jsonl"]) == 0
    assert json.loads(capsys.readouterr().out) == {"setting": "fileReservedTime", "value": "72"}


def test_a_change_is_shown_and_made(broker: LoopbackBroker, capsys: pytest.CaptureFixture[str]) -> None:
    changes = ["fileReservedTime=24", "longPollingEnable = false"]
    assert main(["settings", "set", "broker-a", *changes, "--yes", "-n", broker.nameserver]) == 0
    told = capsys.readouterr().err
    assert "fileReservedTime: 72 → 24" in told and "longPollingEnable: true → false" in told
    with Admin(broker.nameserver) as admin:
        config = admin.brokers.config("broker-a")
    assert (config["fileReservedTime"], config["longPollingEnable"]) == ("24", "false")


@pytest.mark.parametrize(
    ("change", "code"), [("nothing", 1), ("=5", 1), ("brokerName=x", 3), ("fileReservedTime=soon", 3)]
)
def test_what_cannot_be_changed_is_refused(
    broker: LoopbackBroker, change: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["settings", "set", "broker-a", change, "--yes", "-n", broker.nameserver]) == code
    assert "Traceback" not in capsys.readouterr().err


def test_an_unknown_broker_is_named(broker: LoopbackBroker, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", "ls", "nobody", "-n", broker.nameserver]) == 2
    assert "nobody" in capsys.readouterr().err
