"""A listener that raises RejectedError: a dead letter at once that tells why, and progress goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyromq import Admin, Message, Producer, PushConsumer
from pyromq.errors import RejectedError
from pyromq.idempotent import Marks, once_for_batch
from pyromq.results import BatchResult, OrderlyResult
from pyromq.testing import LoopbackBroker
from tests.integration.waiting import until_on_thread

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quiet")]


def letters(nameserver: str, group: str) -> list[tuple[str, str, int]]:
    with Admin(nameserver) as admin:
        until_on_thread(lambda: admin.dead_letters(group))
        return [(each.keys[0], each.reason, each.attempts) for each in admin.dead_letters(group)]


@pytest.mark.parametrize("orderly", [False, True])
def test_a_rejected_message_is_a_dead_letter_with_its_reason_at_the_first_attempt(orderly: bool) -> None:
    seen: list[bytes] = []

    def listen(message: Any) -> None:
        seen.append(message.body)
        if message.body == b"bad":
            raise RejectedError("no such\x01customer: 7\ud800")

    with LoopbackBroker() as broker, Producer(broker.nameserver, group="p") as producer:
        with Admin(broker.nameserver) as admin:
            admin.create_topic("orders", queues=1)
        for body in (b"good", b"bad", b"better"):
            producer.send(Message("orders", body, keys=body.decode()))
        with PushConsumer(
            broker.nameserver, group="billing", listener=listen, topics="orders", start="earliest", orderly=orderly
        ) as consumer:
            until_on_thread(lambda: len(seen) == 3 and consumer.counts.ok == 2)
            consumer.close()
        assert letters(broker.nameserver, "billing") == [("bad", "no such customer: 7?", 1)]
        assert seen == [b"good", b"bad", b"better"] or not orderly


@pytest.mark.parametrize("orderly", [False, True])
def test_some_of_a_batch_are_rejected_and_marks_of_rejected_ones_are_given_back(orderly: bool, tmp_path: Path) -> None:
    done: list[bytes] = []
    marks = Marks(tmp_path / "marks.db", scope="billing")

    def listen(batch: list[Any]) -> BatchResult | OrderlyResult:
        rejected = {at: "bad one" for at, message in enumerate(batch) if message.body == b"bad"}
        done.extend(message.body for message in batch if message.body != b"bad")
        return OrderlyResult(rejected=rejected) if orderly else BatchResult(rejected=rejected)

    with LoopbackBroker() as broker, Producer(broker.nameserver, group="p") as producer:
        with Admin(broker.nameserver) as admin:
            admin.create_topic("orders", queues=1)
        for body in (b"1", b"bad", b"2", b"3"):
            producer.send(Message("orders", body, keys=body.decode()))
        with PushConsumer(
            broker.nameserver,
            group="billing",
            batch_listener=once_for_batch(listen, marks),
            batch_max=4,
            topics="orders",
            start="earliest",
            orderly=orderly,
        ) as consumer:
            until_on_thread(lambda: consumer.counts.ok == 3)
        assert sorted(done) == [b"1", b"2", b"3"]
        assert letters(broker.nameserver, "billing") == [("bad", "bad one", 1)]
        assert marks.claim("orders\x00\x00bad") is not None, "it may be sent again and consumed"
        assert marks.claim("orders\x00\x002") is None
    marks.close()
