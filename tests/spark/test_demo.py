"""The end of ``make demo``: as a program of its own, with the JVM and all the noise that it must not make."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pyromq import Admin, Message, Producer, PushConsumer
from pyromq.testing import LoopbackBroker
from tests.unit.test_docs import ROOT

pytestmark = pytest.mark.spark

ORDERS = 30


def test_the_orders_of_a_broker_are_archived_and_drawn(tmp_path: Path) -> None:
    leave_orders(tmp_path / "data")
    command = [sys.executable, str(ROOT / "examples" / "orders_on_spark.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    page = tmp_path / "report.html"
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == f"page: {page}\n", "Spark says nothing by itself"
    assert f"{ORDERS} messages, {ORDERS} different orders" in done.stdout and page.as_uri() in done.stdout
    for text in ("Throughput", "end to end", "Lag", "billing"):
        assert text in done.stdout
    assert page.read_text(encoding="utf-8").count("<svg") >= 4


def leave_orders(folder: Path) -> None:
    """What the first part of the demo leaves behind, smaller."""
    enough = threading.Semaphore(0)
    with LoopbackBroker(folder=folder) as broker:
        with Admin(broker.nameserver) as admin:
            admin.topics.create("orders", queues=4)
        with Producer(broker.nameserver, group="shop") as producer:
            for number in range(ORDERS):
                producer.send(Message("orders", b"%d" % number, keys=f"order-{number}"))
        billing = PushConsumer(
            broker.nameserver, group="billing", listener=lambda message: enough.release(), trace=True, start="earliest"
        )
        billing.subscribe("orders")
        with billing:
            for _ in range(ORDERS):
                assert enough.acquire(timeout=120)
