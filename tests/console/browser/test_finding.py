"""The search field of every page, by keyboard alone and without scripts; and badges that lead to what they count."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.console.browser.chromium import Complaints, open_context
from tests.console.browser.served import Served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

expect: Any = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
pytestmark = [pytest.mark.browser, pytest.mark.more]


def test_a_group_is_found_by_keys_alone(page: Page) -> None:
    page.goto("/brokers")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.matches('[data-find]')")
    page.keyboard.type("bill")
    expect(page.get_by_role("option", name="billing")).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(page.locator('[role="option"][aria-selected="true"]')).to_have_text("billing")
    page.keyboard.press("Enter")
    page.wait_for_url("**/groups/billing")


def test_enter_looks_everywhere_and_arrows_go_through_what_was_found(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("/")
    page.keyboard.type("order-10011")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?q=order-10011")
    expect(page.locator("main")).to_contain_text("keys of messages in")
    assert page.evaluate("document.activeElement.matches('main a[data-hit]')"), "the first result has the focus"
    page.keyboard.press("Enter")
    page.wait_for_url("**/messages/orders/**")


def test_escape_closes_what_was_found(page: Page) -> None:
    page.goto("/topics")
    page.keyboard.press("/")
    page.keyboard.type("orders")
    expect(page.get_by_role("listbox")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("listbox")).to_be_hidden()


def test_without_scripts_the_field_is_a_form(
    browser: Browser, console: Served, signed_in: Any, complaints: Complaints
) -> None:
    options = {"storage_state": signed_in, "base_url": console.url, "java_script_enabled": False}
    with open_context(browser, complaints, **options) as context:
        page = context.new_page()
        page.goto("/topics")
        page.get_by_role("combobox").fill("billing")
        page.keyboard.press("Enter")
        page.wait_for_url("**/search?q=billing")
        page.locator("main").get_by_role("link", name="billing", exact=True).click()
        page.wait_for_url("**/groups/billing")


def test_a_badge_and_a_finding_lead_to_the_dead_letters(page: Page) -> None:
    page.goto("/health")
    entry = page.get_by_role("navigation", name="Pages").get_by_role("link", name=re.compile("Dead letters"))
    expect(entry).to_contain_text(re.compile(r"\d+ dead letters waiting"))
    page.get_by_role("link", name="See why, redrive").click()
    page.wait_for_url("**/dead-letters/billing")
    page.get_by_role("heading", name="By error").wait_for()
