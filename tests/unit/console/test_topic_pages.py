"""A topic's own pages: messages first, traffic with a forecast, who sends and consumes, its dead letters."""

from __future__ import annotations

import pytest

from pyromq.aio import Message, PushConsumer, ReceivedMessage
from pyromq.console.views.topic_contents import disk_chart, forecast_text
from pyromq.errors import DeadLetterError, NoPermissionError
from pyromq.operate.reading.retention import RetentionLimit, TopicRetention
from pyromq.operate.reading.topic_history import HistoryStep, TopicHistory
from pyromq.testing import FaultyDisk, LoopbackBroker
from pyromq.wire.codes import ResponseCode
from tests.unit.console.rig import XSS, ConsoleRig
from tests.unit.console.test_work_pages import on_a_console

HOUR_MS = 3_600_000


async def test_a_topic_opens_on_its_newest_messages_and_is_searched_by_key_and_time() -> None:
    async with ConsoleRig() as rig:
        await rig.admin.topics.create("orders", queues=2)
        page = await rig.page("/topics/orders")
        assert "No message is stored" in page and "Send a message" in page
        producer = await rig.producer()
        for number in range(3):
            await producer.send(Message("orders", XSS.encode(), keys=[f"order-{number}"], tags="eu"))
        page = await rig.page("/topics/orders")
        assert "Newest messages" in page and all(f"order-{number}" in page for number in range(3))
        assert "<script>alert" not in page
        page = await rig.page("/topics/orders", key="order-1")
        assert "1 found" in page and "order-1" in page and "order-2" not in page
        assert "0 found" in await rig.page("/topics/orders", begin="1h ago", end="30min ago")
        assert 'role="alert"' in await rig.page("/topics/orders", begin="when pigs fly")
        live = await rig.page("/topics/orders", live="1", key="order-1")
        assert "data-tail-rows" in live and "/tail/stream?topic=orders&amp;key=order-1" in live
        assert (await rig.get("/topics/nowhere")).status_code == 404


async def test_a_topics_pages_ask_about_this_topic_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ConsoleRig() as rig:
        await rig.admin.topics.create("orders", queues=1, attributes={"message.type": "FIFO"})
        await rig.admin.topics.create("others", queues=1)
        monkeypatch.setattr(rig.admin.sweeper, "read", None)  # of all topics and groups
        for page in ("", "/traffic", "/clients", "/configuration", "/send", "/delete"):
            text = await rig.page(f"/topics/orders{page}")
            assert page == "/delete" or ">fifo topic<" in text, page
        assert ">dead-letters topic<" in await rig.page(await _letters_topic(rig))


async def _letters_topic(rig: ConsoleRig) -> str:
    await rig.admin.topics.create("%DLQ%billing", queues=1)
    return "/topics/%25DLQ%25billing"


async def test_typed_messages_say_what_they_are() -> None:
    async with ConsoleRig() as rig:
        await rig.admin.topics.create("orders", queues=1)
        producer = await rig.producer()
        await producer.send(
            Message("orders", b"{}", properties={"content_type": "application/json", "schema": "Order"})
        )
        page = await rig.page("/topics/orders")
        assert "application/json" in page and "schema <code>Order</code>" in page


async def test_traffic_has_charts_and_a_forecast() -> None:
    roomy = FaultyDisk()  # not this machine's, which may be nearly full
    async with ConsoleRig(broker=LoopbackBroker(disk=roomy)) as rig:
        await rig.admin.topics.create("orders", queues=2)
        producer = await rig.producer()
        for _ in range(20):
            await producer.send(Message("orders", b"x" * 200))
        page = await rig.page("/topics/orders/traffic", range="quarter")
        assert (
            page.count("<svg") >= 3
            and ">Kept for<" in page
            and "as brokers are configured" in page
            and "about " in page
        )
        assert "pyromq topic retention orders" in page and "broker-a" in page
        told = (await rig.api("GET", "/topics/orders/retention")).json()
        assert told["messages"] == 20 and told["oldest_ms"] and told["limit"] == "time"
        steps = (await rig.api("GET", "/topics/orders/history?steps=4")).json()["steps"]
        assert len(steps) == 4 and sum(step["messages"] for step in steps) == 20
        assert (await rig.api("GET", "/topics/orders/history?begin_ms=9&end_ms=3")).status_code == 422


async def test_brokers_that_refuse_to_tell_leave_the_page_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*given: object, **more: object) -> object:
        raise NoPermissionError(code=ResponseCode.NO_PERMISSION, remark="not for you")

    async with ConsoleRig() as rig:
        await rig.admin.topics.create("orders")
        for name in ("retention", "senders", "letters"):
            monkeypatch.setattr(rig.admin.contents, name, refuse)
        assert "No charts: " in await rig.page("/topics/orders/traffic")
        assert "not for you" in await rig.page("/topics/orders/clients")
        assert "not for you" in await rig.page("/topics/orders/dead-letters")


async def test_producers_of_a_topic_stand_apart_from_others() -> None:
    async with ConsoleRig() as rig:
        await rig.admin.topics.create("orders")
        await (await rig.producer()).send(Message("orders", b"1"))
        [sender] = (await rig.api("GET", "/topics/orders/senders")).json()["senders"]
        assert sender["messages"] == 1 and sender["address"]
        assert "Producers of this topic" in await rig.page("/topics/orders/clients")


def test_dead_letters_of_this_topic_alone_are_listed() -> None:
    async def test(rig: ConsoleRig) -> None:
        await rig.admin.topics.create("refunds", queues=1)
        assert "No dead letters of this topic" in await rig.page("/topics/orders/dead-letters")

        async def listen(message: ReceivedMessage) -> None:
            raise DeadLetterError(f"no such customer {XSS}")

        consumer = PushConsumer(
            rig.broker.nameserver, group="billing", listener=listen, topics=("orders", "refunds"), start="earliest"
        )
        producer = await rig.producer()
        await producer.send(Message("orders", b"1", keys=["order-1"]))
        await producer.send(Message("refunds", b"2", keys=["refund-2"]))
        async with consumer:
            await rig.broker.advance(seconds=30)
        page = await rig.page("/topics/orders/dead-letters")
        assert "order-1" in page and "refund-2" not in page and "no such customer" in page
        assert "<script>alert" not in page
        [group] = (await rig.api("GET", "/topics/orders/letters")).json()["groups"]
        assert (group["group"], group["count"], group["is_cut"]) == ("billing", 1, False)

    on_a_console(test)


def kept(**more: object) -> TopicRetention:
    given = {"messages": 10, "oldest_ms": 1_000, "newest_ms": 2_000, "bytes": 900, "kept_ms": 5 * HOUR_MS, **more}
    return TopicRetention(topic="orders", **given)  # type: ignore[arg-type]


def test_the_forecast_says_what_ends_the_life_of_a_message() -> None:
    assert forecast_text(kept()) == "as brokers are configured"
    assert forecast_text(kept(limit=RetentionLimit.DISK)) == "until the disk is full, at this rate"
    assert forecast_text(kept(kept_ms=None)) == "brokers do not say how long they keep messages"


def test_a_size_that_is_not_told_is_not_drawn() -> None:
    step = HistoryStep(begin_ms=0, end_ms=10, messages=3, bytes=300)
    drawn = TopicHistory(topic="orders", steps=(step,))
    assert disk_chart(drawn, kept())
    assert not disk_chart(drawn, kept(bytes=None))
    assert not disk_chart(TopicHistory(topic="orders", steps=(HistoryStep(begin_ms=0, end_ms=9, messages=1),)), kept())
