"""Pages of one thing, as people use them: from a group that is behind to the line of code that it hangs in."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from pyromq import PushConsumer, ReceivedMessage
from tests.console.browser.served import Served

if TYPE_CHECKING:
    from playwright.sync_api import Page

expect: Any = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
pytestmark = [pytest.mark.browser, pytest.mark.more]


def test_a_stuck_member_is_found_by_clicks_with_its_stack(page: Page, console: Served) -> None:
    never = threading.Event()

    def charge_the_card(message: ReceivedMessage) -> None:
        never.wait()

    consumer = PushConsumer(
        console.nameserver, group="invoicing", listener=charge_the_card, topics="orders", start="earliest", threads=2
    )
    with consumer:
        page.goto("/groups")
        page.get_by_role("link", name="invoicing").first.click()
        listener = page.get_by_role("row").filter(has_text="on one message for")
        expect(listener).to_have_count(1)  # the page is live: it comes by itself
        listener.get_by_role("link", name="Stack").click()
        page.get_by_role("heading", name="What its listener is doing").wait_for()
        stuck = page.locator(".blocking").first
        stuck.get_by_text("Stack of its listener").click()
        expect(stuck.locator("pre")).to_contain_text("charge_the_card")
        expect(page.locator("#stacks pre")).to_contain_text("charge_the_card")
        stuck.get_by_role("link", name="order-").click()
        page.wait_for_url("**/messages/orders/**")
        never.set()
