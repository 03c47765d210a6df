"""The official Python client of RocketMQ 5 against our broker, in an environment of its own: ``make grpc``."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Lock
from typing import Any

import pytest

pytest.importorskip("rocketmq", reason="the official client has an environment of its own: make grpc")
pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("default")]

from rocketmq import (  # noqa: E402
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)

ROOT = Path(__file__).parents[2]
PYROMQ = [os.environ.get("PYROMQ_PYTHON", str(ROOT / ".venv/bin/python")), "-m", "pyromq"]
PATIENCE_S = 60


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("grpc")
    command = [*PYROMQ, "up", "--data", str(folder), "--nameserver-port", "0", "--broker-port", "0", "--grpc-port", "0"]
    quick = ["broker.transaction_timeout_ms=500", "broker.transaction_check_interval_ms=1000"]
    command += ["--no-console", "--no-metrics", *(word for each in quick for word in ("--set", each))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        words = dict(word.split("=", 1) for word in process.stdout.readline().split()[1:])
        for name, kind in (
            *(("orders", "normal"), ("fifo", "fifo"), ("later", "delay"), ("money", "transaction")),
            *(("urgent", "priority"), ("work", "normal")),
        ):
            admin("topic", "create", name, "--type", kind, at=words["nameserver"])
        admin(
            "mqadmin", "updateSubGroup", "-g", "ordered", "-o", "true", "-c", "DefaultCluster", at=words["nameserver"]
        )
        yield words["grpc"]
        process.terminate()


def admin(*words: str, at: str) -> None:
    done = subprocess.run([*PYROMQ, *words, "-n", at], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def configuration(endpoint: str) -> ClientConfiguration:
    return ClientConfiguration(endpoint, Credentials())


@pytest.fixture
def producer(configuration: ClientConfiguration) -> Iterator[Producer]:
    found = Producer(configuration, ("orders", "fifo", "later", "urgent", "work"))
    found.startup()
    yield found
    found.shutdown()


def message(topic: str, body: bytes, **fields: Any) -> Message:
    made = Message()
    made.topic, made.body = topic, body
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def received(
    configuration: ClientConfiguration, group: str, topic: str, count: int, expression: str = "*"
) -> list[Any]:
    consumer = SimpleConsumer(configuration, group)
    consumer.startup()
    consumer.subscribe(topic, FilterExpression(expression))
    found: list[Any] = []
    end = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < end:
        for each in consumer.receive(16, 15) or []:
            found.append(each)
            consumer.ack(each)
    consumer.shutdown()
    return found


def test_the_program_of_the_page(endpoint: str) -> None:
    page = (ROOT / "docs/how-to/grpc-clients.md").read_text(encoding="utf-8")
    code = page.partition("```python\n")[2].partition("```")[0].replace("127.0.0.1:8081", endpoint)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr


def test_normal_messages_by_tag(configuration: ClientConfiguration, producer: Producer) -> None:
    for number in range(6):
        receipt = producer.send(message("orders", b"%d" % number, tag="even" if number % 2 == 0 else "odd", keys="k"))
        assert receipt.message_id
    found = received(configuration, "tagged", "orders", 3, "even")
    assert sorted(each.body for each in found) == [b"0", b"2", b"4"]
    assert {each.delivery_attempt for each in found} == {1}


def test_a_push_consumer_tries_again(configuration: ClientConfiguration, producer: Producer) -> None:
    seen: dict[bytes, int] = {}
    lock, done = Lock(), Event()

    class Listener(MessageListener):  # type: ignore[misc]  # the client has no types
        def consume(self, each: Any) -> Any:
            with lock:
                seen[each.body] = seen.get(each.body, 0) + 1
                if seen.get(b"fine", 0) and seen.get(b"fails once", 0) > 1:
                    done.set()
                is_first = each.body == b"fails once" and seen[each.body] == 1
            return ConsumeResult.FAILURE if is_first else ConsumeResult.SUCCESS

    consumer = PushConsumer(configuration, "pushed", Listener(), {"work": FilterExpression("*")})
    consumer.startup()
    producer.send(message("work", b"fine"))
    producer.send(message("work", b"fails once"))
    assert done.wait(PATIENCE_S), seen
    consumer.shutdown()
    assert seen == {b"fine": 1, b"fails once": 2}


def test_messages_of_a_group_stay_in_order(configuration: ClientConfiguration, producer: Producer) -> None:
    for number in range(10):
        producer.send(message("fifo", b"%d" % number, message_group="one"))
    found = received(configuration, "ordered", "fifo", 10)
    assert [each.body for each in found] == [b"%d" % number for number in range(10)]


def test_a_delayed_message_is_recalled_and_another_comes(
    configuration: ClientConfiguration, producer: Producer
) -> None:
    now = int(time.time())
    far = producer.send(message("later", b"far", delivery_timestamp=now + 3_600))
    producer.send(message("later", b"soon", delivery_timestamp=now + 2))
    assert far.recall_handle
    producer.recall_message("later", far.recall_handle)
    found = received(configuration, "patient", "later", 1)
    assert [each.body for each in found] == [b"soon"]
    assert time.time() >= now + 2


def test_transactions_end_and_orphans_are_asked_for(configuration: ClientConfiguration) -> None:
    class Checker(TransactionChecker):  # type: ignore[misc]
        def check(self, each: Any) -> Any:
            return TransactionResolution.COMMIT if each.body == b"orphan" else TransactionResolution.UNKNOWN

    producer = Producer(configuration, ("money",), Checker())
    producer.startup()
    endings: list[tuple[bytes, Callable[[Any], None] | None]] = [
        (b"committed", lambda transaction: transaction.commit()),
        (b"rolled back", lambda transaction: transaction.rollback()),
        (b"orphan", None),
    ]
    for body, ending in endings:
        transaction = producer.begin_transaction()
        producer.send(message("money", body), transaction)
        if ending is not None:
            ending(transaction)
    found = received(configuration, "auditors", "money", 2)
    assert {each.body for each in found} == {b"committed", b"orphan"}
    producer.shutdown()
