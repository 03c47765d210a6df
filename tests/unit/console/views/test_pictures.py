"""Pictures that the server draws: replication with its clock, hours of delays as links, batches over time."""

from __future__ import annotations

from xml.etree import ElementTree

from pyromq.console.pages.delays import hours_chart
from pyromq.console.pages.pipelines import batch_chart
from pyromq.console.views.delays import HOUR_MS, DelayHour, DelaysView
from pyromq.console.views.replication_picture import copy_kind, narrow_replication_picture, replication_picture
from pyromq.operate.query_reports import QueryBatch
from pyromq.operate.replication import BrokerCopy

XSS = "\"'><script>alert(1)</script>"


def copy(broker: str = "broker-a", number: int = 0, **more: object) -> BrokerCopy:
    given = {"cluster": "c", "address": f"10.0.0.{number + 1}:10911", **more}
    return BrokerCopy(broker=broker, number=number, **given)  # type: ignore[arg-type]


def test_a_set_is_a_master_with_arrows_to_its_replicas() -> None:
    drawn = replication_picture(
        [
            copy(role="sync-master", end=1_234_567, in_sync=1, lease=7, granted_ms=7_400),
            copy(number=1, role="replica", behind_bytes=0, state="following"),
            copy(number=2, role="replica", behind_bytes=3 << 20, state="following", findings=("it is behind",)),
            copy("broker-b", role="alone", end=0),
        ]
    )
    root = ElementTree.fromstring(drawn)  # it is well-formed
    texts = ["".join(each.itertext()) for each in root.iter("text")]
    assert "up to date" in texts and "3.0 MiB behind" in texts and "7 s" in texts
    assert "broker-a, sync-master" in texts and "broker-b, alone" in texts
    assert len([each for each in root.iter("path") if each.get("class", "").startswith("link")]) == 2
    assert "may acknowledge for another 7 s under lease 7" in drawn


def test_on_a_narrow_screen_replicas_stand_below_their_master() -> None:
    copies = [
        copy(role="sync-master", end=1_234_567, in_sync=2),
        copy(number=1, role="replica", behind_bytes=0, state="following"),
        copy(number=2, role="replica", problem=XSS),
        copy("broker-b", number=1, role="replica"),
    ]
    drawn = narrow_replication_picture(copies)
    root = ElementTree.fromstring(drawn)
    _, _, width, height = map(int, root.attrib["viewBox"].split())
    boxes = [{name: int(each.attrib[name]) for name in ("x", "y", "width", "height")} for each in root.iter("rect")]
    assert width < 390 - 2 * 26, "it fits a phone without scrolling"
    assert all(box["x"] + box["width"] <= width and box["y"] + box["height"] <= height for box in boxes)
    tops = [box["y"] for box in boxes]
    assert tops == sorted(tops) and len(set(tops)) == 4, "one below the other"
    texts = ["".join(each.itertext()) for each in root.iter("text")]
    assert "up to date" in texts and "no master of broker-b" in texts and "<script>" not in drawn
    assert narrow_replication_picture([]) == ""


def test_a_copy_that_is_away_or_in_trouble_looks_so() -> None:
    assert copy_kind(copy(problem="refused")) == "bad"
    assert copy_kind(copy(number=1, state="connecting")) == "warning"
    assert copy_kind(copy(findings=("no replica is in sync",))) == "warning"
    assert copy_kind(copy(number=1, state="following")) == "ok"
    drawn = replication_picture([copy(number=1, problem=XSS)])
    assert "no master of broker-a" in drawn and "does not answer" in drawn and "<script>" not in drawn
    assert replication_picture([]) == ""


def test_an_ended_lease_has_a_clock_without_a_hand() -> None:
    drawn = replication_picture([copy(role="sync-master", granted_ms=0)])
    assert "0 s" in drawn and 'class="hand' not in drawn
    full = replication_picture([copy(role="sync-master", granted_ms=60_000)])
    assert 'class="hand ok"' in full


def test_hours_lead_to_their_messages_and_the_chosen_one_stands_out() -> None:
    begin_ms = 100 * HOUR_MS
    hours = tuple(DelayHour(begin_ms=begin_ms + number * HOUR_MS, count=count) for number, count in ((0, 3), (2, 1)))
    view = DelaysView(hours=hours, messages=(), is_cut=False)
    drawn = hours_chart(view, begin_ms + 2 * HOUR_MS, lambda at: f"?hour={at}")
    assert f"?hour={begin_ms}" in drawn and f"?hour={begin_ms + 2 * HOUR_MS}" in drawn
    assert f"?hour={begin_ms + HOUR_MS}" not in drawn, "an hour without messages leads nowhere"
    assert drawn.count("bar s1") == 1
    assert hours_chart(DelaysView(hours=(), messages=(), is_cut=False), 0, str) == ""


def test_batches_are_drawn_at_their_times_from_the_second_on() -> None:
    batches = [QueryBatch(1_000, 5, 20), QueryBatch(61_000, 9, 40)]
    assert "Rows" in batch_chart(batches, "Rows", lambda batch: batch.rows)
    assert batch_chart(batches[:1], "Rows", lambda batch: batch.rows) == ""
    steady = [QueryBatch(number * 10_000, 5, 20) for number in range(6)]
    late = [QueryBatch(500_000 + number * 10_000, 5, 20) for number in range(6)]
    assert batch_chart(steady, "Rows", lambda batch: batch.rows).count("<polyline") == 1
    assert batch_chart([*steady, *late], "Rows", lambda batch: batch.rows).count("<polyline") == 2
