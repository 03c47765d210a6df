"""One broker, one console and one browser for all tests of a module; a fresh profile for each test."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.console.browser.chromium import MISSING, Complaints, find_chromium, open_browser, open_context
from tests.console.browser.served import PASSWORD, Served, served_shop

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SCREENSHOTS = Path(__file__).parents[3] / ".cache" / "browser"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not find_chromium():
        pytest.skip(MISSING)
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def console(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served_shop(tmp_path_factory.mktemp("shop")) as served:
        yield served


@pytest.fixture(scope="module")
def signed_in(browser: Browser, console: Served) -> Any:
    """Cookies of an operator; signing in is one test's work, the others come with them."""
    complaints = Complaints()
    with open_context(browser, complaints) as context:
        sign_in(context.new_page(), console)
        return context.storage_state()


def sign_in(page: Page, console: Served) -> None:
    page.goto(f"{console.url}/login")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{console.url}/")


@pytest.fixture
def complaints() -> Iterator[Complaints]:
    """Nothing in the console of the browser, nothing that the policy refused, nobody beyond loopback."""
    found = Complaints()
    yield found
    assert found.strangers == [], "the page asked for something beyond this machine"
    assert found.texts == []


@pytest.fixture
def page(
    browser: Browser, console: Served, signed_in: Any, complaints: Complaints, request: pytest.FixtureRequest
) -> Iterator[Page]:
    """An operator's page, empty yet. Of a test that fails a screenshot is kept."""
    with open_context(browser, complaints, storage_state=signed_in, base_url=console.url) as context:
        page = context.new_page()
        failed_before = request.session.testsfailed
        yield page
        if request.session.testsfailed > failed_before:
            SCREENSHOTS.mkdir(parents=True, exist_ok=True)
            name = re.sub(r"\W+", "-", request.node.name)[:100]
            page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)
