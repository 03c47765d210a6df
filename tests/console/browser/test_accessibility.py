"""Every page for everybody: axe finds nothing in both themes and both sizes; tables have headings, links a line."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import pytest

from tests.console.browser.axe import MISSING, axe_script, violations
from tests.console.browser.registry import addresses, addresses_with_ids, job_address, opened, unfold

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [pytest.mark.browser, pytest.mark.more]

PHONE = 390
PLAIN_LINKS = """() => [...document.querySelectorAll(
    "main p a:not(.button), main td a:not(.tag, .button, .key), main li a:not(.button)")].filter(
    each => each.offsetParent && !getComputedStyle(each).textDecorationLine.includes("underline")
        && !getComputedStyle(each).borderBottomStyle.includes("dotted") && !each.querySelector("img, svg, .badge")
        && !each.closest(".filters, .tabs, .pager-links, .crumbs, nav")
).map(each => each.textContent.trim())"""
BARE_TABLES = """() => [...document.querySelectorAll("main table")].filter(
    each => !each.querySelector("th[scope]")).map(each => each.outerHTML.slice(0, 200))"""


@pytest.mark.parametrize("width", [1440, PHONE])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_on_any_page(page: Page, theme: Any, width: int) -> None:
    script = axe_script()
    if not script:
        pytest.skip(MISSING)
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    page.set_viewport_size({"width": width, "height": 900})
    found = {}
    for address in [*addresses(), *addresses_with_ids(page), job_address(page)]:
        if opened(page, address):
            unfold(page)
            if wrong := violations(page, script):
                found[address] = wrong
    assert found == {}, "\n".join(f"{address}\n    " + "\n    ".join(wrong) for address, wrong in found.items())


def test_links_have_a_line_and_tables_have_headings(page: Page) -> None:
    plain, bare = {}, {}
    for address in addresses():
        if opened(page, address):
            plain[address], bare[address] = page.evaluate(PLAIN_LINKS), page.evaluate(BARE_TABLES)
    assert {address: found for address, found in plain.items() if found} == {}, "told by their colour alone"
    assert {address: found for address, found in bare.items() if found} == {}


def test_the_focus_is_seen_and_goes_from_the_bar_through_the_navigation_to_the_content(page: Page) -> None:
    page.goto("/topics")
    places = []
    for _ in range(60):
        page.keyboard.press("Tab")
        places.append(
            page.evaluate(
                """() => { const each = document.activeElement, style = getComputedStyle(each);
                const place = each.closest("header, nav, main")?.localName ?? "";
                return [place, style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2]; }"""
            )
        )
    assert all(seen for place, seen in places if place), "somewhere the focus is not seen"
    order = [place for place, _ in groupby(place for place, _ in places if place)]
    assert order[:3] == ["header", "nav", "main"]


def test_nothing_moves_for_people_who_want_that(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    page.goto("/")
    moving = """() => [...document.querySelectorAll("*")].filter(each => {
        const style = getComputedStyle(each);
        return style.animationName !== "none" || parseFloat(style.transitionDuration) > 0;
    }).length"""
    assert page.evaluate(moving) == 0
