"""The provider inside the real Apache Airflow: found, made by the common trigger, acknowledging. ``make airflow``."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("airflow", reason="Airflow has an environment of its own: make airflow")
pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("default")]  # Airflow's own warnings are not ours

from airflow.providers.common.messaging.triggers.msg_queue import MessageQueueTrigger  # noqa: E402
from airflow.providers_manager import ProvidersManager  # noqa: E402
from airflow.sdk import DAG, Asset, AssetWatcher  # noqa: E402
from airflow.triggers.shared_stream import SharedStreamManager  # noqa: E402

from pyromq.aio import Admin, Message, Producer  # noqa: E402
from pyromq.integrations.airflow.queue import PyroMQMessageQueueProvider  # noqa: E402
from pyromq.integrations.airflow.trigger import PyroMQTrigger  # noqa: E402
from pyromq.testing import LoopbackBroker  # noqa: E402

_trigger_ids = itertools.count(1)


def on_a_broker(test: Callable[[LoopbackBroker], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), LoopbackBroker() as broker:
            await test(broker)

    asyncio.run(main())


async def send(broker: LoopbackBroker, *bodies: bytes) -> None:
    async with Producer(broker.nameserver, group="shop") as producer:
        for body in bodies:
            await producer.send(Message("orders", body, sharding_key="one"))


async def committed(broker: LoopbackBroker) -> int:
    async with Admin(broker.nameserver) as admin:
        progress = await admin.groups.lag("airflow", "orders")
    return sum(max(0, each.consumer_offset) for each in progress.values())


async def until_committed(broker: LoopbackBroker, count: int) -> None:
    while await committed(broker) < count:
        pass  # asking takes a while; ``on_a_broker`` ends it


def trigger_for(broker: LoopbackBroker, **more: Any) -> PyroMQTrigger:
    given: dict[str, Any] = {"topics": "orders", "group": "airflow", "start": "earliest", **more}
    return PyroMQTrigger(**({"nameservers": broker.nameserver} | given if "conn_id" not in given else given))


class Triggerer:
    """What Airflow's triggerer does with an event trigger, without its database: events are stored when told."""

    def __init__(self, **more: Any) -> None:
        self.streams = SharedStreamManager(**more)
        self.events: asyncio.Queue[tuple[Any, int | None]] = asyncio.Queue()

    async def run(self, trigger: PyroMQTrigger) -> None:
        trigger_id, key = next(_trigger_ids), trigger.shared_stream_key()
        shared = self.streams.subscribe(trigger_id=trigger_id, trigger=trigger, key=key)
        try:
            async for event in trigger.filter_shared_stream(shared):
                number = self.streams.bind_pending_event(trigger_id=trigger_id, key=key)
                self.events.put_nowait((event.payload, number))
        finally:
            await self.streams.unsubscribe(trigger_id, key)


# --- found by Airflow ---


def test_airflow_finds_the_provider_and_its_queue() -> None:
    manager = ProvidersManager()
    assert "pyromq" in manager.providers
    assert f"{PyroMQMessageQueueProvider.__module__}.PyroMQMessageQueueProvider" in manager.queue_class_names


def test_the_common_trigger_makes_ours_by_its_scheme() -> None:
    common = MessageQueueTrigger(scheme="pyromq", topics=["orders", "bills"], group="airflow", nameservers="names:9876")
    assert isinstance(common.trigger, PyroMQTrigger)
    path, values = common.serialize()
    assert path == "pyromq.integrations.airflow.trigger.PyroMQTrigger"
    assert json.loads(json.dumps(values)) == values
    again = PyroMQTrigger(**values)
    assert again.serialize() == (path, values)
    assert again.shared_stream_key() == common.trigger.shared_stream_key()


def test_a_dag_may_wait_for_it() -> None:
    trigger = MessageQueueTrigger(scheme="pyromq", topics="orders", group="airflow")
    asset = Asset("orders", watchers=[AssetWatcher(name="orders", trigger=trigger)])
    assert DAG("on_orders", schedule=[asset]).dag_id == "on_orders"


# --- acknowledged ---


def test_a_message_is_committed_after_its_event_was_stored_and_not_before() -> None:
    async def test(broker: LoopbackBroker) -> None:
        await send(broker, b"1", b"2")
        triggerer = Triggerer()
        task = asyncio.create_task(triggerer.run(trigger_for(broker)))
        (first, one), (second, two) = await triggerer.events.get(), await triggerer.events.get()
        assert (first["body"], second["body"]) == ("1", "2")
        assert one is not None and two is not None
        assert await committed(broker) == 0
        triggerer.streams.confirm_persisted([two])  # the later one first: its queue waits for the earlier
        await asyncio.sleep(0)
        assert await committed(broker) == 0
        triggerer.streams.confirm_persisted([one])
        await until_committed(broker, 2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    on_a_broker(test)


def test_what_was_not_stored_comes_again_after_a_restart() -> None:
    async def test(broker: LoopbackBroker) -> None:
        await send(broker, b"1", b"2")
        for _ in range(2):
            triggerer = Triggerer()
            task = asyncio.create_task(triggerer.run(trigger_for(broker)))
            assert [(await triggerer.events.get())[0]["body"] for _ in range(2)] == ["1", "2"]
            task.cancel()  # the triggerer dies with both in its hands
            await asyncio.gather(task, return_exceptions=True)
            await triggerer.streams.stop_all()
        assert await committed(broker) == 0

    on_a_broker(test)


def test_an_event_that_is_never_stored_ends_the_trigger_and_is_not_committed() -> None:
    async def test(broker: LoopbackBroker) -> None:
        await send(broker, b"1", b"2")
        triggerer = Triggerer(ack_timeout=0.2)
        task = asyncio.create_task(triggerer.run(trigger_for(broker)))
        await triggerer.events.get()
        with pytest.raises(Exception):  # noqa: B017 (whatever Airflow calls it: the trigger has failed)
            await task
        assert await committed(broker) == 0

    on_a_broker(test)


def test_triggers_with_one_subscription_share_a_consumer_and_both_have_to_store() -> None:
    async def test(broker: LoopbackBroker) -> None:
        triggerer = Triggerer()
        tasks = [asyncio.create_task(triggerer.run(trigger_for(broker))) for _ in range(2)]
        await asyncio.sleep(0)
        await send(broker, b"1")
        (one, first), (two, second) = await triggerer.events.get(), await triggerer.events.get()
        assert one == two
        triggerer.streams.confirm_persisted([first])
        await asyncio.sleep(0)
        assert await committed(broker) == 0
        triggerer.streams.confirm_persisted([second])
        await until_committed(broker, 1)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    on_a_broker(test)


def test_without_acknowledging_streams_a_message_is_committed_when_the_next_is_asked_for() -> None:
    async def test(broker: LoopbackBroker) -> None:
        await send(broker, b"1", b"2")
        events: AsyncIterator[Any] = trigger_for(broker).run()
        assert (await anext(events)).payload["body"] == "1"
        assert await committed(broker) == 0
        assert (await anext(events)).payload["body"] == "2"
        assert await committed(broker) == 1
        await events.aclose()  # type: ignore[attr-defined]
        assert await committed(broker) == 1

    on_a_broker(test)


def test_the_address_may_be_in_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(broker: LoopbackBroker) -> None:
        host, _, port = broker.nameserver.rpartition(":")
        connection = {"conn_type": "generic", "host": host, "port": int(port), "extra": {"tls": False}}
        monkeypatch.setitem(os.environ, "AIRFLOW_CONN_SHOP_MESSAGES", json.dumps(connection))
        await send(broker, b"1")
        trigger = trigger_for(broker, conn_id="shop_messages")
        assert "nameservers" not in trigger.serialize()[1]
        events: AsyncIterator[Any] = trigger.run()
        assert (await anext(events)).payload["body"] == "1"
        await events.aclose()  # type: ignore[attr-defined]

    on_a_broker(test)


# --- the page ---


def test_the_dag_of_the_page_is_one() -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/airflow.md").read_text(encoding="utf-8")
    code = next(
        block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "MessageQueueTrigger" in block
    )
    found: dict[str, Any] = {}
    exec(compile(code, "airflow.md", "exec", dont_inherit=True), found)
    assert [task.task_id for task in found["dag"].tasks] == ["bill"]
    assert isinstance(found["trigger"].trigger, PyroMQTrigger)
