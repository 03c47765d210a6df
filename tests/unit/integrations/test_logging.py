"""Fields of a message in what listeners log: in threads, in coroutines, in JSON and in structlog, and nowhere else."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

import pyromq
from pyromq import Message, Producer, PullConsumer, PushConsumer, aio
from pyromq.integrations import logging as fields
from pyromq.integrations.logging import (
    FIELDS,
    JsonFormatter,
    LoggingHook,
    MessageFilter,
    add_message_fields,
    message_fields,
    working_on,
)
from pyromq.testing import LoopbackBroker

logger = logging.getLogger("shop.billing")


@pytest.fixture
def broker() -> Iterator[LoopbackBroker]:
    with LoopbackBroker(virtual_time=True) as broker:
        yield broker


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What the logger of the shop writes, as JSON."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(JsonFormatter())
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield written
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


def read(lines: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines.getvalue().splitlines()]


def send(broker: LoopbackBroker, *bodies: bytes, **more: Any) -> list[pyromq.SendReceipt]:
    with Producer(broker.nameserver, group="shop") as producer:
        return [producer.send(Message("orders", body, **more)) for body in bodies]


def consume(broker: LoopbackBroker, listener: Any, **more: Any) -> int:
    given = {"topics": "orders", "start": "earliest", "group": "billing", "hooks": [LoggingHook()], **more}
    count = given.pop("messages", 1)
    return PushConsumer(broker.nameserver, listener=listener, **given).run(messages=count, timeout_ms=600_000)


def test_a_line_of_a_listener_says_which_message_it_is_about(broker: LoopbackBroker, lines: io.StringIO) -> None:
    def bill(message: pyromq.ReceivedMessage) -> None:
        logger.info("billed %d", 42)
        if message.delivery_attempt == 0:
            raise ValueError("once more")

    (receipt,) = send(broker, b"42", keys=["order-42", "customer-7"])
    consume(broker, bill)
    logger.info("outside")
    first, again, outside = read(lines)
    assert {name: first[name] for name in FIELDS if name in first} == {
        "topic": "orders",
        "group": "billing",
        "message_id": receipt.message_id,
        "keys": "order-42 customer-7",
        "attempt": 1,
        "queue": f"broker-a:{receipt.queue.number}",
        "offset": receipt.offset,
    }
    assert (first["event"], first["level"], first["logger"]) == ("billed 42", "info", "shop.billing")
    assert (again["attempt"], again["message_id"], again["topic"]) == (2, receipt.message_id, "orders")
    assert not set(outside) & set(FIELDS)


def test_threads_do_not_mix_their_fields(broker: LoopbackBroker, lines: io.StringIO) -> None:
    together = threading.Barrier(3, timeout=20)

    def bill(message: pyromq.ReceivedMessage) -> None:
        together.wait()
        logger.info(message.message_id)
        together.wait()

    sent = send(broker, b"1", b"2", b"3")
    consume(broker, bill, messages=3, threads=3)
    found = read(lines)
    assert {line["message_id"] for line in found} == {receipt.message_id for receipt in sent}
    assert all(line["event"] == line["message_id"] for line in found)


def test_coroutines_their_tasks_and_threads_have_the_fields(broker: LoopbackBroker, lines: io.StringIO) -> None:
    together = asyncio.Barrier(3)

    async def bill(message: pyromq.ReceivedMessage) -> None:
        await together.wait()  # all of them are inside at once, on one thread
        logger.info(message.message_id)
        await asyncio.create_task(note(message))
        await asyncio.to_thread(logger.info, message.message_id)

    async def note(message: pyromq.ReceivedMessage) -> None:
        logger.info(message.message_id)

    async def main() -> None:
        consumer = aio.PushConsumer(
            broker.nameserver,
            group="billing",
            topics="orders",
            listener=bill,
            start="earliest",
            hooks=[LoggingHook()],
        )
        await consumer.run(messages=3, timeout_ms=600_000)

    send(broker, b"1", b"2", b"3")
    asyncio.run(main())
    found = read(lines)
    assert len(found) == 9
    assert all(line["event"] == line["message_id"] for line in found)


def test_a_batch_says_where_it_begins_and_how_long_it_is(broker: LoopbackBroker, lines: io.StringIO) -> None:
    with Producer(broker.nameserver, group="shop") as producer:
        producer.send_batch([Message("orders", b"1"), Message("orders", b"2")])
    consume(broker, None, batch_listener=lambda batch: logger.info("got"), batch_max=2, messages=2)
    for line in read(lines):
        assert line["topic"] == "orders"
        if line.get("messages"):
            assert (line["messages"], line["offset"]) == (2, 0)
            assert "message_id" not in line


def test_a_loop_around_a_pull_consumer_says_itself_what_it_works_on(broker: LoopbackBroker) -> None:
    send(broker, b"1")
    with PullConsumer(broker.nameserver, group="audit", topics="orders", start="earliest") as consumer:
        messages = consumer.poll(10_000)
    with working_on(messages, group="audit"):
        assert message_fields()["group"] == "audit"
        with working_on(messages[0]):
            assert message_fields()["offset"] == 0
        assert message_fields()["group"] == "audit"
    with working_on([]):
        assert message_fields() == {}
    assert message_fields() == {}


def test_a_format_works_inside_and_outside_of_listeners(broker: LoopbackBroker) -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.addFilter(MessageFilter())
    handler.setFormatter(logging.Formatter("%(message)s topic=%(mq_topic)s attempt=%(mq_attempt)s"))
    logger.addHandler(handler)
    try:
        send(broker, b"1")
        consume(broker, lambda message: logger.warning("inside"))
        logger.warning("outside")
        logger.warning("given", extra={"mq_topic": "mine"})
    finally:
        logger.removeHandler(handler)
    assert written.getvalue().splitlines() == [
        "inside topic=orders attempt=1",
        "outside topic=- attempt=-",
        "given topic=mine attempt=-",
    ]


def test_structlog_gets_the_fields_and_keeps_its_own(broker: LoopbackBroker) -> None:
    written: list[Any] = []

    def keep(logger: object, name: str, event: Any) -> Any:
        written.append(dict(event))
        raise structlog.DropEvent

    log = structlog.wrap_logger(None, processors=[add_message_fields, keep], wrapper_class=structlog.BoundLogger)
    send(broker, b"1")
    consume(broker, lambda message: log.info("billed", group="mine"))
    log.info("outside")
    inside, outside = written
    assert (inside["event"], inside["topic"], inside["group"], inside["attempt"]) == ("billed", "orders", "mine", 1)
    assert outside == {"event": "outside"}


def test_installed_it_is_there_for_every_consumer_made_afterwards(broker: LoopbackBroker) -> None:
    seen = []
    send(broker, b"1", b"2")
    fields.install()
    try:
        consume(broker, lambda message: seen.append(message_fields().get("group")), hooks=[], messages=2)
    finally:
        fields.uninstall()
    consume(broker, lambda message: seen.append(message_fields().get("group")), hooks=[], messages=2, group="other")
    assert seen == ["billing", "billing", None, None]


def test_json_lines_have_what_extra_gave_and_what_was_raised(lines: io.StringIO) -> None:
    try:
        raise KeyError("größe")
    except KeyError:
        logger.exception("failed", extra={"price": 9.99, "where": threading.current_thread().__class__, "raw": b"x"})
    (line,) = read(lines)
    assert line["price"] == 9.99
    assert "Thread" in line["where"]
    assert "KeyError: 'größe'" in line["exception"]
    assert lines.getvalue().count("\n") == 1
