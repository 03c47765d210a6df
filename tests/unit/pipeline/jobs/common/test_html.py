"""Summaries of jobs as notebooks show them."""

from __future__ import annotations

import msgspec

from pyromq.pipeline.jobs.archiving.job import Archived
from pyromq.pipeline.jobs.common.html import ShownSummary
from pyromq.pipeline.jobs.resending.replay import ReplaySample, ReplaySummary


def test_fields_are_rows_with_numbers_that_can_be_read() -> None:
    text = Archived(path="/data/<orders>", messages=1_234_567, batches=3, took_s=1.5)._repr_html_()
    assert "<caption>Archived</caption>" in text and ">1,234,567<" in text
    assert "/data/&lt;orders&gt;" in text and "<orders>" not in text
    assert ">files</th><td style='text-align:left'>–<" in text


def test_lists_are_tables_of_their_first_rows() -> None:
    sample = ReplaySample(topic="orders", message_id="1", keys="<k>", tags="", store_time="now", body="{}")
    summary = ReplaySummary(to_topic="copy", name="n", is_dry=True, found=30, samples=(sample,) * 30)
    text = summary._repr_html_()
    assert text.count("&lt;k&gt;") == 20 and "and 10 more" in text and ">yes<" in text


def test_a_summary_is_still_a_struct() -> None:
    summary = Archived(path="p", messages=1, batches=1, took_s=0.1)
    assert msgspec.json.decode(msgspec.json.encode(summary), type=Archived) == summary
    assert isinstance(summary, ShownSummary)
