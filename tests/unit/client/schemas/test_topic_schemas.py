"""The schema of a topic: asked for once, kept, renewed; and none where it cannot be had."""

from __future__ import annotations

import asyncio
import base64
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from pyromq.client.schemas.topic_schemas import TopicSchemas, versions_in
from pyromq.errors import ConfigError, NameServersUnreachableError
from pyromq.testing import ManualClock


class Table:
    """A name server's table, which counts who asks."""

    def __init__(self, **texts: str) -> None:
        self.asked = 0
        self.is_away = False
        self.texts = {key.replace("_", "@"): text for key, text in texts.items()}

    async def __call__(self) -> Mapping[str, str]:
        self.asked += 1
        if self.is_away:
            raise NameServersUnreachableError([])
        return {key: kept(text) for key, text in self.texts.items()}


def kept(text: str, payload: str = "json") -> str:
    return base64.b64encode(msgspec.json.encode({"payload": payload, "text": text})).decode()


def schemas(table: Table, source: str = "topic", clock: ManualClock | None = None) -> TopicSchemas:
    return TopicSchemas(source, table, lambda name: name, clock or ManualClock())


def test_a_table_is_asked_for_once() -> None:
    async def run() -> None:
        table = Table(orders_1="id bigint", orders_2="id bigint, colour string")
        found = schemas(table)
        assert not found.is_known("orders") and found.known("orders") is None and table.asked == 0
        bodies = await found.find("orders")
        assert bodies is not None and bodies.version == 2
        assert await found.find("orders") is bodies is found.known("orders") and table.asked == 1
        assert await found.find("bills") is None and found.is_known("bills") and table.asked == 2
        assert await found.find("bills") is None and table.asked == 2

    asyncio.run(run())


def test_many_who_ask_at_once_ask_once() -> None:
    async def run() -> None:
        table = Table(orders_1="id bigint")
        found = schemas(table)
        await asyncio.gather(*(found.find("orders") for _ in range(50)))
        assert table.asked == 1

    asyncio.run(run())


def test_a_newer_version_is_found_and_a_deleted_one_forgotten() -> None:
    async def run() -> None:
        table = Table(orders_1="id bigint")
        found = schemas(table)
        first = await found.find("orders")
        await found.renew()
        assert found.known("orders") is first, "what has not changed is not made again"
        table.texts["orders@2"] = "id bigint, colour string"
        await found.renew()
        assert (newer := found.known("orders")) is not None and newer.version == 2
        table.texts.clear()
        await found.renew()
        assert found.known("orders") is None

    asyncio.run(run())


def test_a_value_that_does_not_fit_looks_for_a_newer_version_once_a_second() -> None:
    async def run() -> None:
        clock, table = ManualClock(), Table(orders_1="id bigint")
        found = schemas(table, clock=clock)
        first = await found.find("orders")
        assert first is not None
        table.texts["orders@2"] = "id string"
        assert await found.renewed("orders", first) is None and table.asked == 1, "it was asked just now"
        clock.advance_ms(1_000)
        newer = await found.renewed("orders", first)
        assert newer is not None and newer.version == 2 and table.asked == 2
        clock.advance_ms(1_000)
        assert await found.renewed("orders", newer) is None

    asyncio.run(run())


def test_a_name_server_that_is_away_does_not_hold_up_sends() -> None:
    async def run() -> None:
        table = Table(orders_1="id bigint")
        table.is_away = True
        found = schemas(table)
        assert await found.find("orders") is None and found.is_known("orders")
        with pytest.raises(NameServersUnreachableError):
            await found.get("orders")
        table.is_away = False
        await found.renew()
        assert (bodies := found.known("orders")) is not None
        table.is_away = True
        await found.renew()
        assert found.known("orders") is bodies, "what was known stays"

    asyncio.run(run())


def test_a_schema_that_cannot_be_used_here_is_none_for_sends_and_an_error_for_who_asks_for_it() -> None:
    async def run() -> None:
        found = schemas(Table(orders_1="no.such.module.Order"))
        assert await found.find("orders") is None
        with pytest.raises(ConfigError, match=r"no.such.module.Order"):
            await found.get("orders")

    asyncio.run(run())


def test_what_a_name_server_says_imports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "from dataclasses import dataclass\n\n@dataclass\nclass Order:\n    id: int\n"
    (tmp_path / "kept_orders.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)

    async def run() -> None:
        found = schemas(Table(orders_1="kept_orders.Order"))
        assert await found.find("orders") is None and "kept_orders" not in sys.modules
        assert await found.get("orders") is not None, "who asks for the schema gets the class"
        await found.renew()
        assert found.known("orders") is not None, "the program has the module now"

    asyncio.run(run())


def test_nothing_is_asked_for_where_it_is_off() -> None:
    async def run() -> None:
        table = Table(orders_1="id bigint")
        found = schemas(table, "none")
        assert found.is_off and await found.find("orders") is None and await found.get("orders") is None
        assert table.asked == 0
        assert (await found.kept("orders")) is not None, "who names it explicitly gets it"

    asyncio.run(run())


def test_versions_are_those_of_this_topic() -> None:
    table = {"orders@1": kept("id int"), "orders@10": kept("id bigint"), "order@11": kept("x int"), "orders@x": "?"}
    assert [each.version for each in versions_in(table, "orders", "orders")] == [10, 1]
    with pytest.raises(ConfigError, match="version 2 of the schema of topic orders"):
        versions_in({"orders@2": "!"}, "orders", "orders")
