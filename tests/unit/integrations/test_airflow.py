"""What of the Airflow provider needs no Airflow; ``make airflow`` tests the rest with the real one (tests/airflow)."""

from __future__ import annotations

import asyncio
import base64
import json
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from pyromq.aio import Admin, Credentials, Message, Producer
from pyromq.errors import ConfigError
from pyromq.integrations.airflow import stream as streams
from pyromq.integrations.airflow.provider_info import get_provider_info
from pyromq.integrations.airflow.stream import EventFailedError, Handed, MessageStream
from pyromq.integrations.airflow.subscription import AirflowSubscription, ClusterConnection, place_of_connection
from pyromq.testing import LoopbackBroker

ORDERS = AirflowSubscription(topics="orders", group="airflow", start="earliest")


def on_a_broker(test: Callable[[LoopbackBroker], Awaitable[None]]) -> None:
    async def main() -> None:
        async with LoopbackBroker() as broker:
            await test(broker)

    asyncio.run(main())


def stream_of(broker: LoopbackBroker, subscription: AirflowSubscription = ORDERS) -> MessageStream:
    async def place() -> ClusterConnection:
        return ClusterConnection(nameservers=broker.nameserver)

    return MessageStream(subscription, place)


async def send(broker: LoopbackBroker, *messages: Message) -> None:
    async with Producer(broker.nameserver, group="shop") as producer:
        for message in messages:
            await producer.send(message)


async def take(events: AsyncIterator[Any], count: int) -> list[tuple[dict[str, Any], Handed]]:
    async with asyncio.timeout(20):
        return [await anext(events) for _ in range(count)]


async def committed(broker: LoopbackBroker) -> int:
    """Messages that the group is past, over all queues."""
    async with Admin(broker.nameserver) as admin:
        progress = await admin.groups.lag("airflow", "orders")
    return sum(max(0, each.consumer_offset) for each in progress.values())


# --- what a DAG run gets ---


def test_an_event_is_json_and_has_what_the_message_had() -> None:
    async def test(broker: LoopbackBroker) -> None:
        await send(
            broker,
            Message("orders", "größe".encode(), tags="new", keys=["a", "b"], properties={"currency": "EUR"}),
            Message("orders", b"\xff\x00"),
        )
        stream = stream_of(broker)
        found = [event for event, _ in await take(stream.events(), 2)]
        await stream.close()
        text, raw = sorted(found, key=lambda event: event["body"] is None)
        assert json.loads(json.dumps(found)) == found
        assert (text["topic"], text["tags"], text["keys"], text["body"]) == ("orders", "new", ["a", "b"], "größe")
        assert text["properties"] == {"currency": "EUR"}
        assert {"message_id", "broker", "queue", "offset", "born_ms"} <= set(text)
        assert (raw["body"], base64.b64decode(raw["body_base64"])) == (None, b"\xff\x00")

    on_a_broker(test)


# --- commits ---


def test_an_event_is_committed_when_it_was_taken_and_not_before() -> None:
    async def test(broker: LoopbackBroker) -> None:
        await send(broker, *(Message("orders", b"%d" % number, sharding_key="one") for number in range(3)))
        stream = stream_of(broker)
        taken = await take(stream.events(), 3)
        assert [event["body"] for event, _ in taken] == ["0", "1", "2"]
        assert await committed(broker) == 0
        await stream.done([(handed, True) for _, handed in taken[:2]])
        assert await committed(broker) == 2
        await stream.close()
        assert await committed(broker) == 2, "closing commits nothing"
        again = stream_of(broker)
        assert [event["body"] for event, _ in await take(again.events(), 1)] == ["2"]
        await again.close()

    on_a_broker(test)


def test_what_a_filter_passed_over_leaves_no_lag_and_an_unfinished_event_is_never_passed() -> None:
    async def test(broker: LoopbackBroker) -> None:
        tags = ["new", "new", *["old"] * 5]
        await send(broker, *(Message("orders", b"%d" % n, tags=tag, sharding_key="one") for n, tag in enumerate(tags)))
        stream = stream_of(broker, AirflowSubscription(topics={"orders": "new"}, group="airflow", start="earliest"))
        events = stream.events()
        taken = await take(events, 2)
        waiting = asyncio.create_task(anext(events))
        await stream.done([(taken[0][1], True)])
        assert await committed(broker) == 1
        await stream.done([(taken[1][1], True)])
        assert await committed(broker) == 7
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await stream.close()

    on_a_broker(test)


def test_nothing_is_committed_past_an_event_that_failed() -> None:
    async def test(broker: LoopbackBroker) -> None:
        await send(broker, *(Message("orders", b"%d" % number, sharding_key="one") for number in range(3)))
        stream = stream_of(broker)
        handed = [place for _, place in await take(stream.events(), 3)]
        with pytest.raises(EventFailedError, match="will come again"):
            await stream.done([(handed[0], True), (handed[1], False), (handed[2], True)])
        assert await committed(broker) == 1
        with pytest.raises(EventFailedError):
            await stream.done([(handed[1], False)])
        assert await committed(broker) == 1
        await stream.close()
        await stream.close()
        await stream.done([(handed[2], True)])  # too late: it is closed
        assert await committed(broker) == 1

    on_a_broker(test)


def test_a_queue_that_has_moved_is_left_to_its_new_owner() -> None:
    async def test(broker: LoopbackBroker) -> None:
        await send(broker, Message("orders", b"1"))
        stream = stream_of(broker)
        ((_, handed),) = await take(stream.events(), 1)
        elsewhere = handed._replace(queue=type(handed.queue)("orders", "another", 0))
        await stream.done([(elsewhere, True)])
        await stream.close()
        assert await committed(broker) == 0

    on_a_broker(test)


def test_events_under_way_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "IN_FLIGHT_MAX", 2)

    async def test(broker: LoopbackBroker) -> None:
        await send(broker, *(Message("orders", b"%d" % number, sharding_key="one") for number in range(3)))
        stream = stream_of(broker)
        events = stream.events()
        first, _ = await take(events, 2)
        third = asyncio.ensure_future(anext(events))
        for _ in range(50):
            await asyncio.sleep(0)
        assert not third.done()
        await stream.done([(first[1], True)])
        async with asyncio.timeout(20):
            assert (await third)[0]["body"] == "2"
        await stream.close()

    on_a_broker(test)


# --- subscriptions and connections ---


def test_tags_and_sql_choose_messages() -> None:
    async def test(broker: LoopbackBroker) -> None:
        await send(
            broker,
            Message("orders", b"cheap", tags="old", properties={"price": "5"}),
            Message("orders", b"dear", tags="new", properties={"price": "50"}),
        )
        for subscription in (
            AirflowSubscription(topics={"orders": "new"}, group="by-tag", start="earliest"),
            AirflowSubscription(topics="orders", sql="price > 10", group="by-sql", start="earliest"),
        ):
            stream = stream_of(broker, subscription)
            ((event, _),) = await take(stream.events(), 1)
            assert event["body"] == "dear"
            await stream.close()

    on_a_broker(test)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"topics": "orders", "group": ""}, "group is the consumer group"),
        ({"topics": (), "group": "g"}, "topics names what is listened to"),
        ({"topics": "orders", "group": "g", "nameservers": "a:1", "conn_id": "b"}, "either nameservers or conn_id"),
        ({"topics": ["a", "b"], "group": "g", "sql": "x > 1"}, "sql filters one topic"),
        ({"topics": "orders", "group": "g", "start": "yesterday"}, "'earliest' or 'latest', not 'yesterday'"),
    ],
)
def test_mistakes_are_told_when_the_dag_is_read(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        AirflowSubscription(**given)


@pytest.mark.parametrize("topics", ["orders", ["orders", "bills"], ("orders",), {"orders": "new || old"}])
def test_a_subscription_survives_airflows_database(topics: Any) -> None:
    subscription = AirflowSubscription(topics=topics, group="g", nameservers="10.0.0.1:9876", start="earliest")
    values = json.loads(json.dumps(subscription.values()))
    again = AirflowSubscription(**values)
    assert again.key() == subscription.key()
    assert AirflowSubscription(topics=topics, group="other").key() != subscription.key()


def test_a_connection_is_an_address_with_credentials() -> None:
    place = place_of_connection("10.0.0.1;10.0.0.2:9877", 9876, "key", "secret", {"tls": True, "namespace": "blue"})
    assert place == ClusterConnection(
        nameservers="10.0.0.1:9876;10.0.0.2:9877", credentials=Credentials("key", "secret"), tls=True, namespace="blue"
    )
    assert place_of_connection("names:9876", None, None, None, {}) == ClusterConnection(nameservers="names:9876")
    with pytest.raises(ConfigError, match="no host"):
        place_of_connection(None, None, None, None, {})
    with pytest.raises(ConfigError, match="login without a password"):
        place_of_connection("a", 1, "key", None, {})


# --- what Airflow finds ---


def test_the_provider_is_found_by_its_entry_point_without_airflow() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = project["entry-points"]["apache_airflow_provider"]["provider_info"]
    assert EntryPoint("provider_info", declared, "apache_airflow_provider").load() is get_provider_info
    assert get_provider_info()["package-name"] == project["name"]
