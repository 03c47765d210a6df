"""One text is found wherever it is, and what was not looked at is said."""

from __future__ import annotations

import asyncio

import pytest

from pyromq.aio import Message, PushConsumer, ReceivedMessage
from pyromq.errors import ConfigError, RequestTimeoutError
from pyromq.operate.reading import cluster_search
from pyromq.operate.reading.cluster_search import ask_some, matching
from pyromq.operate.subjects import SubjectKind
from tests.unit.console.shop import Shop, a_shop

MESSAGE, TOPIC, GROUP = SubjectKind.MESSAGE, SubjectKind.TOPIC, SubjectKind.GROUP


def test_the_name_itself_comes_first_then_names_that_begin_with_it() -> None:
    assert matching("ORD", ["reorder", "orders", "ord", "mail"]) == ["ord", "orders", "reorder"]


def test_a_key_is_found_in_every_topic_and_a_name_in_part() -> None:
    async def run() -> None:
        async with a_shop() as shop:
            await shop.admin.topics.create("refunds", queues=1)
            await shop.admin.groups.create("order-billing")
            await shop.send(b"1", keys=("order-42",))
            await shop.send(b"2", topic="refunds", keys=("order-42",))
            await shop.send(b"3", keys=("order-43",))
            found = await shop.admin.search.find("order-42")
            assert sorted(hit.subject.within for hit in found.of(MESSAGE)) == ["orders", "refunds"]
            assert any("keys of messages in 2 topics" in line for line in found.searched)
            names = await shop.admin.search.find("order")
            assert [hit.subject.name for hit in names.of(TOPIC)] == ["orders"]
            assert [hit.subject.name for hit in names.of(GROUP)] == ["order-billing"]
            assert not names.of(MESSAGE), "keys are found as a whole"

    asyncio.run(run())


def test_both_ids_of_a_message_lead_to_it() -> None:
    async def run() -> None:
        async with a_shop() as shop:
            receipt = await shop.producer.send(Message("orders", b"1"))
            for text in (receipt.message_id, receipt.offset_message_id):
                (hit,) = (await shop.admin.search.find(f" {text} ")).of(MESSAGE)
                assert hit.title == receipt.message_id and hit.subject.within == "orders"

    asyncio.run(run())


def test_an_offset_id_whose_broker_is_away_leaves_the_rest_of_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object) -> ReceivedMessage:
        raise RequestTimeoutError("broker-a does not answer")

    async def run() -> None:
        async with a_shop() as shop:
            receipt = await shop.producer.send(Message("orders", b"1"))
            await shop.admin.groups.create(f"g-{receipt.offset_message_id}")
            monkeypatch.setattr(shop.admin.requests.brokers, "message_at", away)
            found = await shop.admin.search.find(receipt.offset_message_id)
            assert [hit.subject.kind for hit in found.hits] == [GROUP]
            assert any("this offset id: broker-a does not answer" in line for line in found.skipped)

    asyncio.run(run())


def test_a_connected_member_is_found_with_its_group() -> None:
    async def run() -> None:
        async with a_shop() as shop:
            await shop.admin.groups.create("billing")
            async with consuming(shop) as consumer:
                await shop.broker.advance(seconds=2)
                client_id = consumer.client.id
                (hit,) = (await shop.admin.search.find(client_id[:12])).of(SubjectKind.CLIENT)
                assert (hit.subject.name, hit.subject.within) == (client_id, "billing")

    asyncio.run(run())


def consuming(shop: Shop) -> PushConsumer:
    async def listen(message: ReceivedMessage) -> None:
        pass

    return PushConsumer(shop.broker.nameserver, group="billing", listener=listen, topics="orders")


def test_names_only_looks_at_no_message() -> None:
    async def run() -> None:
        async with a_shop() as shop:
            await shop.send(b"1", keys=("orders",))
            found = await shop.admin.search.find("orders", names_only=True)
            assert [hit.subject.kind for hit in found.hits] == [TOPIC]
            assert len(found.searched) == 2

    asyncio.run(run())


def test_topics_beyond_the_bound_are_named_as_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_search, "TOPICS_MAX", 1)

    async def run() -> None:
        async with a_shop() as shop:
            await shop.admin.topics.create("refunds", queues=1)
            found = await shop.admin.search.find("order-42")
            assert "1 topic not asked (at most 1 are)" in found.skipped

    asyncio.run(run())


@pytest.mark.parametrize("text", ["", "   ", "x" * 256])
def test_no_text_and_too_much_of_it_are_refused(text: str) -> None:
    async def run() -> None:
        async with a_shop() as shop:
            with pytest.raises(ConfigError, match="1 to 255"):
                await shop.admin.search.find(text)

    asyncio.run(run())


def test_who_does_not_answer_and_who_was_too_late_is_counted() -> None:
    async def answer() -> list[int]:
        return [1]

    async def fail() -> list[int]:
        raise RequestTimeoutError("no answer")

    told = asyncio.run(ask_some([answer, fail, answer]))
    assert (told.found, told.answered, len(told.failed)) == ([1, 1], 2, 1)
    told.is_late = True
    assert told.left_out("topic", 10, 5) == ["1 topic did not answer: no answer", "7 topics not asked (time was up)"]
