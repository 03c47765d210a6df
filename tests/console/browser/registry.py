"""Addresses of all pages, from the registry: what tests and screenshots open."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pyromq.console import pages
from pyromq.console.web.discovery import declared_in
from pyromq.console.web.pages import Pages

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


def message_addresses(page: Page) -> list[str]:
    """Pages with ids in them: a message of the shop, and a job if there is one."""
    page.goto("/messages?topic=orders")
    found = page.locator("main table a.id").first.get_attribute("href")
    return ["/messages?topic=orders", "/tail?topic=orders", "/topics?q=orders", *([found] if found else [])]


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
