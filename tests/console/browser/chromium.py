"""A headless Chromium for tests and screenshots: Debian's, found by its name; playwright only drives it.

Nothing beyond loopback is reached, and whatever the browser complains about is collected: scripts that fail, what the
content security policy refused.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Route

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
VARIABLE: Final = "PYROMQ_CHROMIUM"
MISSING: Final = f"no Chromium here: apt-get install chromium, or name one with {VARIABLE}"
_ARGUMENTS: Final = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--font-render-hinting=none")
WAIT_MS: Final = 30_000  # for an event; tests wait for no time


def find_chromium() -> str:
    """Its path; empty where there is none."""
    named = os.environ.get(VARIABLE, "")
    if named:
        return named if os.access(named, os.X_OK) else ""
    return next((found for name in NAMES if (found := shutil.which(name))), "")


@contextmanager
def open_browser() -> Iterator[Browser]:
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(_ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Complaints:
    """What went wrong in a browser without anybody looking."""

    texts: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)  # addresses beyond loopback that a page asked for

    def take_from(self, page: Page) -> None:
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.texts.append(f"script: {error}"))

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.texts.append(f"{message.type}: {message.text} ({message.location.get('url', '')})")

    def forget_refusals(self) -> None:
        """Answers that say no are part of a test that asks for them; Chromium complains about each."""
        self.texts = [text for text in self.texts if "Failed to load resource" not in text]


@contextmanager
def open_context(browser: Browser, complaints: Complaints, **options: Any) -> Iterator[BrowserContext]:
    """A fresh profile that reaches loopback only."""
    context = browser.new_context(**options)
    context.set_default_timeout(WAIT_MS)
    context.on("page", complaints.take_from)

    def admit(route: Route) -> None:
        parts = urlsplit(route.request.url)
        if parts.scheme in ("data", "blob") or parts.hostname in ("127.0.0.1", "localhost"):
            route.continue_()
        else:
            complaints.strangers.append(route.request.url)
            route.abort()

    context.route("**/*", admit)
    try:
        yield context
    finally:
        context.close()
