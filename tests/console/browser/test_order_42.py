"""Somebody who has never seen the console finds out why order 42 was not billed, mends it, and sees that it was."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyromq import Message, Producer, PushConsumer
from pyromq.console.settings import ConsoleSettings
from pyromq.security.secret import Secret
from pyromq.testing import LoopbackBroker
from tests.console.browser.chromium import Complaints, open_context
from tests.console.browser.conftest import SCREENSHOTS, sign_in
from tests.console.browser.served import PASSWORD, QUICK_SCRYPT, Served, served_console

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

expect: Any = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
pytestmark = [pytest.mark.browser, pytest.mark.more]

ORDERS = 50
LIVE_MS_MAX = 120_000


class PriceMissingError(Exception):
    pass


@dataclass
class Billing:
    """A listener with a bug: order 42 has no price, until somebody mends that."""

    is_mended: threading.Event = field(default_factory=threading.Event)
    billed: set[str] = field(default_factory=set)

    def listen(self, message: Any) -> None:
        if message.keys[0] == "order-42" and not self.is_mended.is_set():
            raise PriceMissingError("order 42 has a plum without a price")
        self.billed.add(message.keys[0])


@pytest.fixture(scope="module")
def billing() -> Billing:
    return Billing()


@pytest.fixture(scope="module")
def console(browser: Browser, billing: Billing, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A broker, the listener, fifty orders, and a console that looks at them."""
    folder: Path = tmp_path_factory.mktemp("orders")
    with LoopbackBroker(folder=folder, delay_levels_ms=(20,) * 18) as broker:
        consumer = PushConsumer(
            broker.nameserver, group="billing", listener=billing.listen, topics="orders", start="earliest",
            attempts_max=1, trace=True,
        )  # fmt: skip
        with consumer, Producer(broker.nameserver, group="shop", trace=True) as producer:
            for number in range(ORDERS):
                producer.send(Message("orders", b'{"id": %d}' % number, keys=(f"order-{number}",)))
            settings = ConsoleSettings(
                nameservers=broker.nameserver, password=Secret(PASSWORD), scrypt=QUICK_SCRYPT, refresh_ms=300
            )
            with served_console(settings) as url:
                yield Served(url, broker.nameserver, None)


@pytest.fixture
def page(browser: Browser, console: Served, complaints: Complaints) -> Iterator[Page]:
    with open_context(browser, complaints, base_url=console.url) as context:
        page = context.new_page()
        sign_in(page, console)
        try:
            yield page
        finally:
            SCREENSHOTS.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=SCREENSHOTS / "order-42.png", full_page=True)


def wait_for(place: Any) -> None:
    """Pages are live: what happened a moment ago comes by itself."""
    expect(place.first).to_be_visible(timeout=LIVE_MS_MAX)


def test_a_button_asks_also_while_the_other_scripts_are_on_their_way(page: Page, billing: Billing) -> None:
    """It sent without a question when it was clicked early."""
    others = re.compile(r"/(app|live|times|charts|find)[^/]*\.js")
    page.route(others, lambda route: route.fulfill(content_type="text/javascript", body=""))
    page.goto("/dead-letters/billing")
    page.locator("table.messages tbody tr").filter(has_text="order-42").locator("a.id").click()
    page.get_by_role("button", name="Redrive", exact=True).click()
    expect(page.locator("#confirm-text")).to_contain_text("Send this letter again?")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#confirm")).to_be_hidden()
    page.unroute(others)
    assert "order-42" not in billing.billed


def test_why_order_42_was_not_billed_and_that_it_is_now(page: Page, billing: Billing) -> None:
    # the overview says that something waits: one click leads to it
    finding = page.get_by_role("link", name="See why, redrive")
    wait_for(finding)
    finding.first.click()
    page.wait_for_url("**/dead-letters/billing")
    expect(page.locator("main")).to_contain_text("PriceMissingError")

    # the letter says why
    row = page.locator("table.messages tbody tr").filter(has_text="order-42")
    row.locator("a.id").click()
    expect(page.get_by_role("heading", name="Dead letter of billing")).to_be_visible()
    expect(page.locator(".why-card")).to_contain_text("order 42 has a plum without a price")
    expect(page.locator(".why-card")).to_contain_text("waiting")
    assert "order-42" not in billing.billed

    # the original has the whole story
    page.get_by_role("link", name="Open the original").click()
    verdict = page.locator(".verdicts li").filter(has_text="billing")
    expect(verdict).to_contain_text("dead letter")
    lines = page.locator(".timeline li")
    expect(lines.first).to_contain_text("Sent")
    expect(lines.last).to_contain_text("billing gave up: dead letter")
    expect(page.locator(".timeline")).to_contain_text("Attempt 1 of billing failed")

    # the bug is mended, and the letter is sent again
    billing.is_mended.set()
    verdict.get_by_role("link", name="Open the dead letter").click()
    page.get_by_role("button", name="Redrive", exact=True).click()
    page.get_by_role("button", name="Yes, do it").click()
    expect(page.locator("main")).to_contain_text("The letter was sent again.")

    # and the page says that it was billed
    copy = page.locator(".why-card .badge").filter(has_text="its copy: consumed")
    wait_for(copy)
    assert "order-42" in billing.billed and len(billing.billed) == ORDERS
    page.get_by_role("link", name="Open the original").click()
    expect(page.locator(".verdicts li").filter(has_text="billing")).to_contain_text("consumed")
    expect(page.locator(".timeline li").last).to_contain_text("Consumed by billing")


def test_the_same_is_found_by_its_key(page: Page) -> None:
    page.keyboard.press("/")
    page.keyboard.type("order-42")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?q=order-42")
    hits = page.locator("main a[data-hit]")
    expect(hits).to_have_count(2)  # the order, and its redriven copy
    hits.first.click()
    page.wait_for_url("**/messages/orders/**")
    expect(page.locator("main")).to_contain_text(re.compile("redriven copy|Open the redriven copy"))
