"""Numbers to a page: whole, escaped, by itself."""

from __future__ import annotations

from html.parser import HTMLParser

import msgspec

from pyromq.pipeline.jobs.reporting.numbers import (
    Report,
)
from pyromq.pipeline.jobs.reporting.page import page
from tests.unit.pipeline.jobs.reporting.reports import EVIL, a_report


class Tags(HTMLParser):
    """Every tag that is opened is closed, and nothing is fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        assert not {"src", "href"} & {name for name, _ in attrs}
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_page_is_well_formed_escaped_and_needs_nothing_from_elsewhere() -> None:
    html = page(a_report())
    tags = Tags()
    tags.feed(html)
    assert not tags.open and "script" not in tags.seen and "http" not in html.replace("<!doctype html>", "")
    assert "url(" not in html and "@import" not in html
    for text in ("1,234", "order-1", "end to end", "17", "1 min 10 s"):
        assert text in html
    assert EVIL not in html and "&lt;script&gt;" in html


def test_a_page_says_what_it_does_not_know() -> None:
    bare = Report(
        made_ms=0, nameserver="n", topics=("t",), groups=(), begin_ms=0, end_ms=0, bucket_ms=1, has_trace=False,
        took_s=0,
    )  # fmt: skip
    html = page(bare)
    assert "no messages" in html and "There is no trace topic" in html and "Nothing of the kind was found" in html


def test_bars_of_several_topics_can_be_told_apart() -> None:
    one = a_report()
    same = msgspec.structs.replace(one.latencies[0], topic="payments", group="billing")
    both = msgspec.structs.replace(one, latencies=(msgspec.structs.replace(same, topic="orders"), same))
    assert "end to end · billing · orders" in page(both) and "end to end · billing · payments" in page(both)
    assert "billing · orders<" not in page(msgspec.structs.replace(one, latencies=(same,), lags=()))


def test_a_page_says_how_many_keys_are_not_shown() -> None:
    assert "The most frequent of" not in page(a_report())
    assert "The most frequent of 1,234." in page(msgspec.structs.replace(a_report(), duplicate_keys=1_234))
