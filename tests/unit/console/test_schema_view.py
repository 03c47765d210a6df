"""The page of a message by the schema of its topic: what the body says, and what is wrong with it."""

from __future__ import annotations

import pytest

from tests.unit.console.rig import XSS, ConsoleRig
from tests.unit.console.test_work_pages import on_a_console, send

pytestmark = pytest.mark.usefixtures("quiet")


async def newest_page(rig: ConsoleRig) -> str:
    (message,) = await rig.admin.messages.newest("orders", 1)
    return await rig.page(f"/messages/orders/{message.offset_message_id}")


def test_a_body_is_shown_by_the_schema_of_its_topic() -> None:
    async def test(rig: ConsoleRig) -> None:
        await rig.admin.schemas.set("orders", "id bigint NOT NULL, name string", payload="avro")
        producer = await rig.producer()
        await producer.send("orders", {"id": 7, "name": XSS})
        page = await newest_page(rig)
        assert "By the schema, version 1 (avro)" in page and "&#34;id&#34;: 7" in page
        assert XSS not in page
        await send(rig, b"\xff\xff\xff")
        page = await newest_page(rig)
        assert "It does not fit the schema of the topic, version 1 (avro)" in page

    on_a_console(test)


def test_a_topic_without_a_schema_has_the_forms_it_had() -> None:
    async def test(rig: ConsoleRig) -> None:
        await send(rig, b'{"id": 1}')
        assert "schema of the topic" not in (page := await newest_page(rig)) and "By the schema" not in page

    on_a_console(test)
