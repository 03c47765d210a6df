"""The search field of every page, and its page of results."""

from __future__ import annotations

import pytest

from tests.unit.console.rig import XSS, ConsoleRig
from tests.unit.console.test_work_pages import on_a_console, send

pytestmark = pytest.mark.usefixtures("quiet")


def test_results_are_grouped_and_lead_to_their_pages() -> None:
    async def test(rig: ConsoleRig) -> None:
        await rig.admin.groups.create("order-42")
        await send(rig, b"1", keys=("order-42",))
        page = await rig.page("/search", q="order-42")
        assert page.index(">Messages ") < page.index(">Groups ")
        assert 'href="/groups/order-42" data-hit' in page
        assert 'href="/messages/orders/' in page and "keys order-42" in page
        assert "What was searched" in page and "pyromq find order-42" in page

    on_a_console(test)


def test_nothing_found_says_what_was_searched_and_what_to_do() -> None:
    async def test(rig: ConsoleRig) -> None:
        page = await rig.page("/search", q="no-such-thing")
        assert "Nothing found for no-such-thing" in page and "keys of messages in 1 topic" in page
        assert "What are you looking for?" in await rig.page("/search")
        assert "1 to 255 characters" in await rig.page("/search", q="x" * 300)

    on_a_console(test)


def test_every_page_has_the_field_and_strangers_have_none() -> None:
    async def test(rig: ConsoleRig) -> None:
        for path in ("/", "/topics", "/dead-letters", "/users", "/api"):
            assert 'action="/search"' in await rig.page(path)
        assert 'action="/search"' not in (await rig.stranger.get("/login")).text
        assert "<script>alert" not in await rig.page("/search", q=XSS)

    on_a_console(test)


def test_the_api_finds_the_same() -> None:
    async def test(rig: ConsoleRig) -> None:
        await send(rig, b"1", keys=("order-42",))
        told = (await rig.api("GET", "/search", params={"q": "order-42"})).json()
        assert [hit["subject"]["kind"] for hit in told["hits"]] == ["message"]
        assert (await rig.api("GET", "/search", params={"q": ""})).status_code == 422

    on_a_console(test)
