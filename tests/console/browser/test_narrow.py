"""Pages on a phone: what is wide says so, what sorts and chooses is reached, pictures are drawn for the width."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.console.browser.axe import MISSING, axe_script, violations
from tests.console.browser.chromium import Complaints, open_context
from tests.console.browser.conftest import sign_in
from tests.console.browser.served import served_pair

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

expect: Any = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
pytestmark = [pytest.mark.browser, pytest.mark.more]

PHONE = {"width": 390, "height": 844}
IN_VIEW = "each => { const box = each.getBoundingClientRect(); return box.left >= 0 && box.right <= innerWidth; }"


@pytest.fixture
def phone(page: Page) -> Page:
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    return page


@pytest.fixture(scope="module")
def replicated(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    complaints = Complaints()
    with (
        served_pair(tmp_path_factory.mktemp("pair")) as served,
        open_context(browser, complaints, base_url=served.url) as context,
    ):
        page = context.new_page()
        sign_in(page, served)
        yield page
    assert not complaints.texts and not complaints.strangers, complaints


def test_the_search_field_has_room_for_its_words_and_stays_when_the_page_scrolls(phone: Page) -> None:
    phone.goto("/topics/orders")
    field = phone.locator("[data-find]")
    box = field.bounding_box()
    assert box is not None and box["width"] > 240
    phone.mouse.wheel(0, 2_000)
    expect(field).to_be_in_viewport()


def test_a_wide_table_says_that_it_scrolls_and_keeps_its_names(phone: Page) -> None:
    phone.goto("/topics")
    wide = phone.locator("#topics .scroll")
    expect(wide).to_have_attribute("data-more", "")
    assert "scroll sideways" in wide.evaluate("each => getComputedStyle(each, '::before').content")
    wide.evaluate("each => (each.scrollLeft = 10_000)")
    expect(phone.get_by_role("link", name="newsletter")).to_be_in_viewport()
    assert phone.get_by_role("link", name="newsletter").evaluate(IN_VIEW)
    phone.set_viewport_size({"width": 1440, "height": 900})
    expect(wide).not_to_have_attribute("data-more", "")


def test_delays_are_sorted_and_all_chosen(phone: Page) -> None:
    phone.goto("/delays?q=cart-")
    table = phone.locator("table.messages")
    due = table.get_by_role("link", name="Due")
    assert due.evaluate(IN_VIEW)
    due.click()
    phone.wait_for_url("**order=desc**")
    every = table.get_by_label("Choose all")
    assert every.evaluate(IN_VIEW)
    every.check()
    boxes = table.locator("input[name=handle]")
    assert boxes.count() > 1 and boxes.evaluate_all("all => all.every(each => each.checked)")


def test_a_row_of_letters_says_what_its_numbers_are(phone: Page) -> None:
    phone.goto("/dead-letters/billing")
    cell = phone.locator("table.messages tbody tr").first.locator("td[data-label=deliveries]")
    assert "deliveries" in cell.evaluate("each => getComputedStyle(each, '::before').content")


def test_the_tab_that_is_open_is_seen(phone: Page) -> None:
    phone.goto("/topics/orders/send")
    assert phone.locator(".tabs [aria-current]").evaluate(IN_VIEW)


def test_the_picture_of_replication_is_drawn_for_the_width(replicated: Page) -> None:
    replicated.set_viewport_size({"width": 1440, "height": 900})
    replicated.goto("/replication")
    wide, narrow = replicated.locator("svg.picture:not(.narrow)"), replicated.locator("svg.picture.narrow")
    expect(wide).to_be_visible()
    expect(narrow).to_be_hidden()
    replicated.set_viewport_size(PHONE)  # type: ignore[arg-type]
    expect(narrow).to_be_visible()
    expect(wide).to_be_hidden()
    expect(narrow).to_contain_text("broker-a, sync-master")
    expect(narrow).to_contain_text("broker-a, replica 1")
    assert narrow.locator("text").evaluate_all(f"all => all.every({IN_VIEW})"), "nothing of it is beyond the edge"
    master, replica = narrow.locator("rect.box").all()
    above, below = master.bounding_box(), replica.bounding_box()
    assert above is not None and below is not None and above["y"] + above["height"] < below["y"]


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_on_a_page_with_replicas(replicated: Page, theme: Any, width: int) -> None:
    script = axe_script()
    if not script:
        pytest.skip(MISSING)
    replicated.emulate_media(color_scheme=theme, reduced_motion="reduce")
    replicated.set_viewport_size({"width": width, "height": 900})
    for address in ("/replication", "/brokers", "/"):
        replicated.goto(address)
        assert violations(replicated, script) == [], address
