"""Consuming once: processes that share marks, processes that die between effect and mark, and a real broker."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pyromq import Message, Producer, PushConsumer, ReceivedMessage
from pyromq.idempotent import Marks, once
from pyromq.settings import PushConsumerSettings
from pyromq.testing import LoopbackBroker

pytestmark = pytest.mark.integration

PATIENCE_S = 60
FROM_FIRST = PushConsumerSettings(start="earliest")


def run(mode: str, folder: Path, count: int, *steps: str) -> list[Any]:
    """What each step of ``once_worker`` told."""
    command = [sys.executable, "-m", "tests.integration.once_worker", mode, str(folder), str(count), *steps]
    done = subprocess.run(command, check=True, timeout=PATIENCE_S, stdout=subprocess.PIPE)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("mode", ["after", "together"])
def test_processes_that_get_the_same_messages_act_once(tmp_path: Path, mode: str) -> None:
    assert run(mode, tmp_path, 12, "4") == [{f"ID-{number}": 1 for number in range(12)}]


def test_one_who_dies_before_the_mark_is_not_taken_for_done_and_holds_the_message_for_its_lease(tmp_path: Path) -> None:
    died, is_free, again, once_more = run("after", tmp_path, 1, "die", "claim", "1", "1")
    assert (died, is_free) == ({"ID-0": 1}, False)
    assert again == {"ID-0": 2}  # the one repetition that this mode cannot avoid
    assert once_more == again


def test_one_who_dies_before_the_commit_leaves_neither_effect_nor_mark(tmp_path: Path) -> None:
    assert run("together", tmp_path, 1, "die", "1", "1") == [{}, {"ID-0": 1}, {"ID-0": 1}]


def test_messages_that_were_sent_twice_are_consumed_once(tmp_path: Path) -> None:
    counts: Counter[bytes] = Counter()
    lock, all_seen = threading.Lock(), threading.Event()

    def bill(message: ReceivedMessage) -> None:
        with lock:
            counts[message.body] += 1
            if len(counts) == 31:
                all_seen.set()

    marks = Marks(tmp_path / "marks.db", scope="billing")
    with LoopbackBroker() as broker, Producer(broker.nameserver, group="makers") as producer:
        producer.send_batch([Message("orders", b"%d" % number, keys=f"order-{number}") for number in range(30)])
        consumer = PushConsumer(broker.nameserver, group="billing", listener=once(bill, marks), settings=FROM_FIRST)
        consumer.subscribe("orders")
        with consumer:
            for _ in range(PATIENCE_S * 50):
                if len(counts) == 30:
                    break
                all_seen.wait(0.02)
            producer.send_batch([Message("orders", b"%d" % number, keys=f"order-{number}") for number in range(30)])
            producer.send(Message("orders", b"last"))
            assert all_seen.wait(PATIENCE_S)
            for _ in range(PATIENCE_S * 50):
                if consumer.counts.ok >= 61:
                    break
                all_seen.wait(0.02)
            assert counts == {**{b"%d" % number: 1 for number in range(30)}, b"last": 1}
    marks.close()
