"""Addresses of all pages, from the registry: what tests and screenshots open."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pyromq.console import pages
from pyromq.console.web.discovery import declared_in
from pyromq.console.web.pages import Pages
from tests.console.browser.served import PIPELINE

if TYPE_CHECKING:
    from playwright.sync_api import Page

KNOWN: Final = {  # parts of addresses that vary, by what the busy shop has
    "topic": "orders",
    "group": "billing",
    "broker": "broker-a",
    "key": "fileReservedTime",
}
WITH_QUERY: Final = {"/messages/export", "/groups/{group}/members"}  # say which; others test them


def addresses() -> list[str]:
    """Of the registry: pages that are neither streams nor need something that is not there."""
    every = [route for module in declared_in(pages, "pages", Pages) for route in module.routes]
    routes = [each for each in every if each.method == "GET" and not each.is_stream]
    found = []
    for route in routes:
        names = re.findall(r"{(\w+)}", route.path)
        if route.role is not None and set(names) <= set(KNOWN) and route.path not in WITH_QUERY:
            found.append(re.sub(r"{(\w+)}", lambda match: KNOWN[match[1]], route.path))
    return sorted(set(found))


def addresses_with_ids(page: Page) -> list[str]:
    """Pages of one thing: a message, a letter and its edit, a member, a pipeline; and searches."""
    message = _first(page, "/messages?topic=orders", "main table a.id")
    letter = _first(page, "/dead-letters/billing", "main table a.id")
    failed = _first(page, letter, "a.button:has-text('Open the original')")
    member = _first(page, "/groups/billing", "a[href*='/members?']")
    reset = "/groups/billing/reset?topic=orders&to=earliest"
    searches = ["/messages?topic=orders", "/tail?topic=orders", "/topics?q=orders", "/search?q=order-10041"]
    return [*searches, message, letter, f"{letter}/edit", failed, member, f"/pipelines/{PIPELINE}", reset]


def job_address(page: Page) -> str:
    """A job that says what it would do with every dead letter, and does nothing."""
    page.goto("/dead-letters/billing")
    page.locator("#redrive summary").click()
    page.get_by_role("button", name="Dry run").click()
    page.wait_for_url("**/jobs/**")
    return page.url


def unfold(page: Page) -> None:
    """Open what is folded in the content, so that it is looked at, too."""
    page.locator("main details").evaluate_all("all => all.forEach(each => (each.open = true))")


def _first(page: Page, address: str, selector: str) -> str:
    page.goto(address)
    link = page.locator(selector).first
    link.wait_for()
    return link.get_attribute("href") or ""


def opened(page: Page, address: str) -> bool:
    """Open a page; False for something to save. Raises AssertionError if it does not open."""
    from playwright.sync_api import Error

    try:
        answer = page.goto(address)
    except Error as error:
        if "Download is starting" not in str(error):  # something to save is no page
            raise
        return False
    assert answer is not None and answer.ok, f"{address}: {answer and answer.status}"
    return True
