"""Pages of one thing, as people use them: from a group that is behind to the line of code that it hangs in."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from pyromq import Message, Producer, PushConsumer, ReceivedMessage
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
        doing = page.get_by_role("heading", name="What its listener is doing")
        for _ in range(60):  # what a queue is held up by is known a moment after the row says so
            if doing.is_visible():
                break
            page.wait_for_timeout(500)
            page.get_by_role("link", name="Ask again").click()
        doing.wait_for()
        stuck = page.locator(".blocking").first
        stuck.get_by_text("Stack of its listener").click()
        expect(stuck.locator("pre")).to_contain_text("charge_the_card")
        expect(page.locator("#stacks pre")).to_contain_text("charge_the_card")
        stuck.get_by_role("link", name="order-").click()
        page.wait_for_url("**/messages/orders/**")
        never.set()


def test_a_topic_opens_on_its_messages_and_follows_new_ones(page: Page, console: Served) -> None:
    page.goto("/topics")
    page.get_by_role("link", name="newsletter").first.click()
    expect(page.locator("table.messages tbody tr")).to_have_count(40)
    page.get_by_label("Key", exact=True).fill("news-7")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.locator("table.messages tbody tr")).to_have_count(1)
    page.get_by_role("link", name="Messages", exact=True).last.click()
    expect(page.locator("table.messages tbody tr")).to_have_count(40)
    page.get_by_role("link", name="Live", exact=True).click()
    page.wait_for_url("**live=1**")
    row = page.locator("[data-tail-rows] tr")
    with Producer(console.nameserver, group="editor") as producer:
        for number in range(200):  # the first ones may come before the browser listens
            producer.send(Message("newsletter", b"Summer <i>is</i> here", keys=[f"summer-{number}"]))
            if row.count():
                break
            page.wait_for_timeout(100)
    expect(row.first).to_contain_text("Summer <i>is</i> here")
    page.get_by_role("link", name="Newest", exact=True).click()
    expect(page.locator("table.messages tbody tr").first).to_contain_text("summer-")
    page.get_by_role("link", name="Traffic").click()
    expect(page.get_by_role("img", name="Messages a second")).to_be_visible()
    expect(page.locator(".stat").filter(has_text="Kept for")).to_contain_text("as brokers are configured")
    page.get_by_role("link", name="Groups and producers").click()
    expect(page.locator("#senders")).to_contain_text("shop")
