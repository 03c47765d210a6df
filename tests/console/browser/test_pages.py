"""Every page in a real browser: in both themes, on a phone, by keyboard, and the browser complains of nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.console.browser.chromium import Complaints, open_context
from tests.console.browser.conftest import sign_in
from tests.console.browser.registry import addresses, opened
from tests.console.browser.served import Served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [pytest.mark.browser, pytest.mark.more]

PHONE = 390
LOOK = """() => ({
    heading: document.querySelector("main h1")?.textContent.trim(),
    ground: getComputedStyle(document.body).backgroundColor,
    width: document.documentElement.scrollWidth,
    sources: [...document.querySelectorAll("[src], link[href]")].map(
        each => each.getAttribute("src") || each.getAttribute("href")),
})"""


def open_all(page: Page) -> Iterator[str]:
    for address in addresses():
        if opened(page, address):
            yield address


def test_a_person_signs_in_and_out(browser: Browser, console: Served, complaints: Complaints) -> None:
    with open_context(browser, complaints, base_url=console.url) as context:
        page = context.new_page()
        page.goto("/topics")
        assert "/login?next=" in page.url
        page.get_by_label("Password").fill("wrong")
        page.get_by_role("button", name="Sign in").click()
        page.get_by_text(re.compile("password", re.IGNORECASE)).first.wait_for()
        complaints.forget_refusals()
        sign_in(page, console)
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_url(re.compile("/login"))
        page.goto("/topics")
        assert "/login" in page.url


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", PHONE)])
def test_every_page_opens_in_both_themes_and_on_a_phone(page: Page, theme: Any, width: int) -> None:
    page.emulate_media(color_scheme=theme)
    page.set_viewport_size({"width": width, "height": 844})
    grounds, wide = set(), {}
    for address in open_all(page):
        told = page.evaluate(LOOK)
        assert told["heading"], f"{address} has no heading"
        assert all(each.startswith("/") for each in told["sources"]), f"{address}: {told['sources']}"
        grounds.add(told["ground"])
        if told["width"] > width:
            wide[address] = told["width"]
    assert wide == {}, "these pages have to be scrolled sideways"
    (ground,) = grounds
    brightness = sum(map(int, re.findall(r"\d+", ground)[:3]))
    assert brightness > 600 if theme == "light" else brightness < 150, ground


def test_the_theme_is_switched_and_kept(page: Page) -> None:
    page.emulate_media(color_scheme="light")
    page.goto("/topics")
    page.get_by_role("button", name="Light or dark").click()
    page.goto("/brokers")
    assert page.locator("html").get_attribute("data-theme") == "dark"


def test_pages_are_reached_by_keys(page: Page) -> None:
    page.goto("/topics")
    page.keyboard.press("g")
    page.keyboard.press("b")
    page.wait_for_url("**/brokers")
    page.goto("/topics")
    page.keyboard.press("f")
    assert page.evaluate("document.activeElement.matches('[data-search]')")
    page.keyboard.type("reminders")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=reminders**")
    assert page.get_by_role("link", name="reminders").is_visible()
    assert not page.get_by_role("link", name="payments", exact=True).is_visible()


def test_the_first_tab_leads_to_the_content(page: Page) -> None:
    page.goto("/topics")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent.trim()") == "Skip to the content"


def test_keys_are_told_and_differ(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("?")
    assert page.get_by_role("heading", name="Keyboard").is_visible()
    keys = page.locator(".nav a[data-key]").evaluate_all("all => all.map(each => each.dataset.key)")
    assert sorted(keys) == sorted(set(keys)), "two pages have one key"


def test_delays_are_chosen_and_cancelled(page: Page, console: Served) -> None:
    page.goto("/delays?q=cart-")
    before = page.locator("tbody tr").count()
    assert before == len(console.shop.REMINDERS_MIN)
    page.locator("tbody input[type=checkbox]").nth(0).check()
    page.locator("tbody input[type=checkbox]").nth(1).check()
    page.get_by_role("button", name="Cancel the chosen messages").click()
    page.get_by_role("button", name="Yes, do it").click()
    page.get_by_role("heading", name="2 of 2 messages cancelled").wait_for()
    assert page.get_by_text("confirmed", exact=True).count() == 2
    page.goto("/delays?q=cart-")
    assert page.locator("tbody tr").count() == before - 2


def test_a_setting_is_changed_after_a_look(page: Page) -> None:
    page.goto("/brokers/broker-a/settings")
    page.get_by_role("row", name=re.compile("fileReservedTime")).get_by_role("link", name="Change").click()
    page.get_by_label("Value").fill("96")
    page.get_by_role("button", name="Preview").click()
    page.get_by_text("Nothing has changed yet").wait_for()
    page.get_by_role("button", name="Change it").click()
    page.get_by_text("fileReservedTime of broker-a is 96 now").wait_for()


def test_half_messages_show_who_was_asked(page: Page, console: Served) -> None:
    page.goto("/transactions")
    assert page.locator("tbody tr").count() == console.shop.UNDECIDED
    assert page.get_by_text("payment-service").first.is_visible()
