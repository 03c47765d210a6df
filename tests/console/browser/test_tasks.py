"""What people come to the console for, done as they would: with a mouse and a keyboard, in a real browser."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from pyromq import Admin
from tests.console.browser.served import Served

if TYPE_CHECKING:
    from playwright.sync_api import Page

expect: Any = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
pytestmark = [pytest.mark.browser, pytest.mark.more]


def confirm(page: Page) -> None:
    page.get_by_role("button", name="Yes, do it").click()


def test_find_a_message_and_see_why_it_failed(page: Page, console: Served) -> None:
    number = next(each for each in range(10_000, 10_240) if each % 40 == 11)  # its card has expired
    page.goto("/messages")
    page.get_by_label("Topic", exact=True).fill("orders")
    page.get_by_label("Key", exact=True).fill(f"order-{number}")
    page.get_by_role("button", name="Search", exact=True).click()
    page.get_by_role("heading", name="1 found").wait_for()
    page.locator("table.messages a.id").first.click()
    page.get_by_role("heading", name="What became of it").wait_for()
    story = page.locator(".verdicts li").filter(has_text="billing").first
    expect(story).to_contain_text("dead")
    expect(page.locator("main")).to_contain_text("pyromq message explain")
    story.get_by_role("link", name="billing", exact=True).click()
    page.get_by_role("link", name="All dead letters").click()
    page.get_by_placeholder(re.compile("Search")).fill(f"order-{number}")
    page.keyboard.press("Enter")
    letter = page.locator("table.messages tbody tr")
    expect(letter).to_have_count(1)
    expect(letter).to_contain_text("CardRefusedError")
    expect(letter).to_contain_text("expired in 2024")


def test_dead_letters_are_grouped_by_error_and_redriven(page: Page, console: Served) -> None:
    page.goto("/dead-letters")
    page.get_by_role("link", name="billing").first.click()
    page.get_by_role("heading", name="By error").wait_for()
    for name in ("CardRefusedError", "KeyError", "ValueError"):
        expect(page.locator("main")).to_contain_text(name)
    page.get_by_role("link", name="ValueError").first.click()
    page.wait_for_url("**error=**")
    letters = page.locator("table.messages tbody tr").count()
    assert letters == sum(1 for number in range(10_000, 10_240) if number % 60 == 21)
    page.get_by_label("Canary").fill("0")
    question = page.locator("#confirm-text")
    page.get_by_role("button", name="Redrive", exact=True).click()
    expect(question).to_contain_text(f"Redrive all {letters} dead letters that the filter shows of billing?")
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_label("those that are ticked").check()
    page.locator("tbody input[name=letter]").first.check()
    page.get_by_role("button", name="Redrive", exact=True).click()
    expect(question).to_contain_text("Redrive 1 ticked dead letter of billing?")
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_label("that the filter shows").check()
    page.get_by_role("button", name="Redrive", exact=True).click()
    confirm(page)
    page.wait_for_url("**/jobs/**")
    expect(page.locator("main")).to_contain_text("finished")
    expect(page.get_by_role("cell", name="confirmed")).to_have_count(letters)


def test_a_group_is_reset_after_a_preview(page: Page, console: Served) -> None:
    page.goto("/groups/analytics")
    page.get_by_role("link", name="Reset offsets").click()
    page.get_by_label("Topic", exact=True).fill("orders")
    for name in ("Time", "Offset", "Messages", "Other group"):
        expect(page.get_by_label(name, exact=True)).to_be_hidden()
    page.get_by_label("a time").check()
    expect(page.get_by_label("Time", exact=True)).to_be_visible()
    page.get_by_label("the end").check()
    expect(page.get_by_label("Time", exact=True)).to_be_hidden()
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("heading", name="Preview").wait_for()
    expect(page.locator("main")).to_contain_text(re.compile(r"\d+ skipped"))
    rows = page.get_by_role("row").filter(has_text="broker-a:")
    expect(rows).to_have_count(8)
    skipped = [int(row.get_by_role("cell").nth(5).inner_text().replace("\u2009", "")) for row in rows.all()]
    assert sum(skipped) > 0
    expect(page.locator("tfoot")).to_contain_text(str(sum(skipped)))
    page.get_by_role("button", name="Move the group").click()
    confirm(page)
    page.wait_for_url("**/jobs/**")
    expect(page.locator("main")).to_contain_text("finished")
    with Admin(console.nameserver) as admin:
        lag = admin.groups.lag("analytics", "orders")
    assert all(each.broker_offset == each.consumer_offset for each in lag.values())


def test_a_group_is_paused_and_resumed(page: Page, console: Served) -> None:
    page.goto("/groups/shipping")
    page.get_by_role("button", name="Pause", exact=True).click()
    confirm(page)
    expect(page.locator("main")).to_contain_text("is paused")
    with Admin(console.nameserver) as admin:
        assert not admin.groups.config("shipping").consume_enable
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()


def test_a_message_is_sent_and_seen_in_the_tail(page: Page, console: Served) -> None:
    tail = page.context.new_page()
    tail.goto("/tail")
    tail.get_by_label("Topic", exact=True).fill("price-changes")
    tail.get_by_role("button", name="Follow").click()
    expect(tail.locator(".live-mark")).to_have_text("Live")
    page.goto("/topics/price-changes/send")
    page.get_by_label("Body").fill('{"item": "<b>plum</b>", "cents": 45}')
    page.get_by_label("Keys").fill("plum")
    page.get_by_role("button", name="Send", exact=True).click()
    page.get_by_role("heading", name="1 of 1 confirmed").wait_for()
    row = tail.locator("[data-tail-rows] tr").first
    expect(row).to_contain_text("<b>plum</b>")
    tail.locator(".live-mark").click()
    expect(tail.locator(".live-mark")).to_have_text("Paused")
