"""The gallery: every small example runs as it stands, and against a broker that is there already."""

from __future__ import annotations

import asyncio
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pyromq import Message
from pyromq.errors import Attempt, RequestTimeoutError, SendFailedError
from pyromq.testing import LoopbackBroker

pytestmark = pytest.mark.integration

EXAMPLES = Path(__file__).parents[2] / "examples"
LINES_MAX = 40
DEMOS = {"crash_and_recover", "orders_on_spark", "orders_survive_a_crash"}  # make demo; test_ledger_demo, tests/spark
DEMOS |= {"busy_shop", "demo_console"}  # make demo-console; tests/console

LAST_LINES = {
    "admin": "explained: .*archive.*CONSUMED.*\na reset would bring back 1",
    "asyncio_service": "sent 100\nshipped 100",
    "batch": "sent 500 to 1 queue\nstored 500",
    "broadcast": "one emptied 2\nemptying .*\nemptying .*\ntwo emptied 2",
    "celery_tasks": r"a second later: 42\nworkers: \[{'ok': 'pong'}\]\ndead letters: 1",
    "consume_once": "delivered 4\nbilled order-1 order-2 order-3",
    "delayed": "in 0.3 s after .* s\nat level 1 after .* s",
    "dramatiq_tasks": "{'broken': 3, 'order-1': 2}; dead letters: 1",
    "filter_sql": "(35 us paid\n15 eu new|15 eu new\n35 us paid)",
    "hooks": "{'sent': 3, 'SUCCESS': 3}",
    "logging_fields": '{.*"event":"charged","topic":"orders",.*"keys":"order-42","attempt":1.*"euros":42}',
    "opentelemetry_spans": "charge the card <- process orders\ntraces: 1",
    "orderly": "7 created paid shipped\n8 created paid shipped\n9 created paid shipped",
    "pull_loop": "polled 0 1 2 3\ncommitted 10 of queue .\nagain from 0",
    "request_reply": "apple 7 EUR\npear unknown\nno reply to a request of topic unread within 300 ms",
    "retries_and_dead_letters": r"paid fine at attempt 1\npaid flaky at attempt 3\ndead: \['broken'\]\nsent again: 1",
    "send_and_consume": "billed order ., keys .*\nconsumed 3",
    "taskiq_tasks": "hello Ada\nhello Grace, half a second later",
    "testing_with_loopback": "reminded, without waiting a day",
    "transactions": r"rolled back: the card was refused\nrows: \[\(42,\)\]\nmessage: b'42'",
}


def run(name: str, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("name", sorted(LAST_LINES))
def test_an_example_runs_with_a_broker_of_its_own(name: str) -> None:
    assert re.search(f"({LAST_LINES[name]})\n$", run(name))


@pytest.mark.parametrize("name", ["send_and_consume", "asyncio_service", "pull_loop"])
def test_an_example_runs_against_a_name_server(name: str) -> None:
    with LoopbackBroker() as broker:
        assert re.search(f"({LAST_LINES[name]})\n$", run(name, broker.nameserver))


def test_every_example_is_run_listed_and_short() -> None:
    found = {file.stem for file in EXAMPLES.glob("*.py")}
    assert found == {*LAST_LINES, *DEMOS}
    listed = set(re.findall(r"^\| \[(\w+)\.py\]", (EXAMPLES / "README.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert listed == found
    for name in LAST_LINES:
        text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
        assert text.startswith('"""') and text.count("\n") <= LINES_MAX, name


async def test_the_busy_shop_stays_open_when_orders_cannot_be_sent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    busy_shop = importlib.import_module("busy_shop")
    real_sleep, waits = asyncio.sleep, 0

    class SlowBroker:
        sent = 0

        async def send(self, message: Message) -> None:
            self.sent += 1
            if self.sent == 3:
                raise SendFailedError("orders", [Attempt("broker-a", RequestTimeoutError("no answer"))])

    async def sleep(_: float) -> None:
        nonlocal waits
        waits += 1
        if waits == 4:
            raise asyncio.CancelledError
        await real_sleep(0)

    shop = busy_shop.BusyShop("127.0.0.1:1")
    shop._producer = broker = SlowBroker()
    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await shop.trade()
    assert broker.sent > 30, "it went on after the failure"
    assert capsys.readouterr().out.count("some orders were not sent, going on") == 1
