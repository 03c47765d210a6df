"""How pages behave under a hand: charts under the pointer, live pages that leave people alone, compact tables."""

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

POINTS = re.compile(r"(\S+ ){2}")
WATCH = "document.addEventListener('replaced', () => (document.documentElement.dataset.changed = 'yes'))"
TWO_CHARTS = """() => {
    const first = document.querySelector("svg[data-chart]");
    const second = first.cloneNode(true);
    second.id = "second";
    document.querySelector("main").append(second);
}"""


def chart(page: Page) -> Any:
    page.goto("/")
    line = page.locator("main svg.chart polyline").first
    expect(line).to_have_attribute("points", POINTS, timeout=60_000)
    return page.locator("main svg[data-chart]").first


def test_the_crosshair_shows_values_and_is_shared_by_all_charts(page: Page) -> None:
    drawn = chart(page)
    page.evaluate(TWO_CHARTS)
    box = drawn.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 3, box["y"] + 40)
    tip = page.locator(".chart-tip")
    expect(tip).to_be_visible()
    expect(tip).to_contain_text(re.compile(r"\d\d:\d\d:\d\d.*in.*out", re.DOTALL))
    assert page.locator("svg[data-chart] .cross").count() == 2, "one line in each chart"
    page.mouse.move(5, 5)
    expect(tip).to_be_hidden()
    assert page.locator(".cross").count() == 0


def test_a_chart_is_read_with_the_keyboard(page: Page) -> None:
    drawn = chart(page)
    drawn.focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".chart-tip")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator(".chart-tip")).to_be_hidden()


@pytest.mark.parametrize("width", [1440, 700])
def test_charts_fill_their_card_and_letters_keep_their_size(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    drawn = chart(page)
    card = page.locator("#rates").bounding_box()
    assert card is not None and drawn.bounding_box()["width"] > card["width"] - 120
    heights = page.locator("#rates svg text").evaluate_all(
        "all => all.map(each => each.getBoundingClientRect().height)"
    )
    assert max(heights) < 20


def test_a_live_page_changes_numbers_and_leaves_focus_selection_and_scroll_alone(page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 500})
    page.goto("/groups/billing?sort=x")
    region = page.locator("#group")
    region.wait_for()
    page.evaluate(
        """() => {
            const region = document.getElementById("group");
            window.link = region.querySelector("a[href]");
            window.link.focus();
            window.heading = region.querySelector("h2");
            getSelection().selectAllChildren(window.heading);
            window.text = String(getSelection());
            document.querySelector("main").scrollIntoView();
            scrollTo(0, 120);
            region.querySelectorAll(".stat-value").forEach(each => (each.textContent = "stale"));
            document.addEventListener("replaced", () => (document.documentElement.dataset.changed = "yes"));
        }"""
    )
    expect(page.locator("html")).to_have_attribute("data-changed", "yes")
    told = page.evaluate(
        """() => ({ focus: document.activeElement === window.link, text: String(getSelection()) === window.text,
        same: window.heading.isConnected, scroll: scrollY, stale: document.body.textContent.includes("stale") })"""
    )
    assert told == {"focus": True, "text": True, "same": True, "scroll": 120, "stale": False}


def test_what_somebody_writes_in_a_live_region_stays(page: Page) -> None:
    page.goto("/topics")
    field = page.locator("#topics [data-search]")
    field.fill("pay")
    page.evaluate(WATCH)
    expect(page.locator("html")).to_have_attribute("data-changed", "yes")
    assert field.input_value() == "pay"
    assert page.evaluate("document.activeElement.matches('[data-search]')")


def test_live_is_a_button_and_paused_pages_stand_still(page: Page) -> None:
    page.goto("/topics")
    button = page.get_by_role("button", name="Live", exact=True)
    expect(button).to_be_visible()
    button.click()
    expect(page.locator(".live-mark")).to_have_text("Paused")
    page.evaluate(WATCH)
    with page.expect_response("**/topics", timeout=30_000):  # it goes on when it is told to
        page.keyboard.press("p")
    expect(page.locator(".live-mark")).to_have_text("Live")
    expect(page.locator("html")).to_have_attribute("data-changed", "yes")
    page.goto("/access")
    assert not page.locator(".live-mark").is_visible(), "a page without live numbers has no such button"


def test_compact_tables_are_kept(page: Page) -> None:
    page.goto("/topics")
    before = page.locator("#topics tbody tr").first.bounding_box()
    page.get_by_role("button", name="Compact tables").click()
    page.goto("/topics")
    after = page.locator("#topics tbody tr").first.bounding_box()
    assert before is not None and after is not None and after["height"] < before["height"]
    assert page.get_by_role("button", name="Compact tables").get_attribute("aria-pressed") == "true"
    page.keyboard.press("d")
    assert page.locator("html").get_attribute("data-density") is None


def test_times_are_local_with_utc_on_hover_and_relative_ones_tick(
    browser: Browser, console: Served, signed_in: Any, complaints: Complaints
) -> None:
    options = {"storage_state": signed_in, "base_url": console.url, "timezone_id": "Asia/Kolkata"}
    with open_context(browser, complaints, **options) as context:
        page = context.new_page()
        page.clock.install()
        page.goto("/topics/orders")
        page.evaluate(
            """() => { const made = document.createElement("main");
            made.innerHTML = '<time id="at" data-ms="1700000000000"></time><time id="then" data-relative></time>'
                + '<time id="exact" data-ms="1700000000042" data-precise></time>';
            made.querySelector("#then").dataset.ms = Date.now() - 61000;
            document.body.append(made); showTimes(made); }"""
        )
        assert page.locator("#at").text_content() == "2023-11-15 03:43:20"
        assert page.locator("#at").get_attribute("title") == "2023-11-14 22:13:20 UTC"
        assert page.locator("#exact").text_content() == "2023-11-15 03:43:20.042"
        before = page.locator("#then").text_content()
        page.clock.run_for(3_000)
        expect(page.locator("#then")).not_to_have_text(before)
        assert re.fullmatch(r"1 min \d+ s ago", page.locator("#then").text_content() or "")


def test_a_bad_topic_name_is_told_beside_the_field_and_nothing_is_lost(page: Page, complaints: Complaints) -> None:
    page.goto("/topics/new")
    page.get_by_label("Name").fill("no spaces, please")
    page.get_by_label("Queues to write").fill("3")
    page.get_by_label("Consumers may read").uncheck()
    page.get_by_role("button", name="Make the topic").click()
    error = page.locator("#e-topic")
    expect(error).to_be_visible()
    assert page.get_by_label("Name").input_value() == "no spaces, please"
    expect(page.get_by_label("Name")).to_be_focused()
    assert page.get_by_label("Queues to write").input_value() == "3"
    assert not page.get_by_label("Consumers may read").is_checked()
    complaints.forget_refusals()


def test_without_scripts_the_same_form_comes_back(
    browser: Browser, console: Served, signed_in: Any, complaints: Complaints
) -> None:
    options = {"storage_state": signed_in, "base_url": console.url, "java_script_enabled": False}
    with open_context(browser, complaints, **options) as context:
        page = context.new_page()
        page.goto("/topics/new")
        page.get_by_label("Name").fill("orders")
        page.get_by_role("button", name="Make the topic").click()
        expect(page.locator("#e-topic")).to_contain_text("there is a topic orders already")
        page.goto("/?range=day")
        expect(page.locator("#rates .filters [aria-current]")).to_have_text("24 h")
        complaints.forget_refusals()


def test_a_time_that_is_typed_is_meant_as_times_are_shown(
    browser: Browser, console: Served, signed_in: Any, complaints: Complaints
) -> None:
    options = {"storage_state": signed_in, "base_url": console.url, "timezone_id": "Asia/Dubai"}
    with open_context(browser, complaints, **options) as context:
        page = context.new_page()
        page.goto("/messages?topic=orders")
        since = page.get_by_label("Stored since")
        expect(page.locator("#h-begin")).to_have_text("Time in Asia/Dubai")
        since.fill("2026-11-15T07:30")
        expect(page.locator("#h-begin")).to_have_text("= 2026-11-15 03:30:00 UTC")
        page.get_by_role("button", name="Search", exact=True).click()
        page.wait_for_url(re.compile(r"begin=2026-11-15T07%3A30%3A00%2B04%3A00"))
        expect(since).to_have_value("2026-11-15T07:30:00+04:00")
        since.fill("2h ago")
        page.get_by_role("button", name="Search", exact=True).click()
        page.wait_for_url(re.compile(r"begin=2h(\+|%20)ago"))


def test_waiting_messages_are_read_and_chosen_on_a_phone(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/delays?q=cart-")
    row = page.locator("table.messages tbody tr").first
    row.wait_for()
    box = row.locator("input[name=handle]").bounding_box()
    assert box is not None and 0 <= box["x"] <= 390 - box["width"]
    table = page.locator("table.messages")
    assert table.evaluate("table => table.scrollWidth <= table.parentElement.clientWidth"), "nothing is beyond its edge"
