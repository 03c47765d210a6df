"""Decisions of pages without a cluster: hours, states, forecasts, run-time information in words."""

from __future__ import annotations

from pyromq.console.views.brokers import in_words
from pyromq.console.views.delays import HOUR_MS, by_hour
from pyromq.console.views.pipelines import State, batches_per_min
from pyromq.console.views.pipelines import state_of as pipeline_state
from pyromq.console.views.users import changes_of, question_of
from pyromq.operate.delays import DelayedMessage
from pyromq.operate.query_reports import QueryBatch, QueryReport
from pyromq.security.audit import AuditEntry, AuditOutcome

NOW = 1_800_000_000_000 // HOUR_MS * HOUR_MS


def waiting(due_ms: int, *, group: str = "", handle: str = "h") -> DelayedMessage:
    return DelayedMessage(
        topic="t", message_id="id", due_ms=due_ms, stored_ms=0, broker="b", offset=0, group=group, handle=handle
    )


def test_messages_are_counted_in_their_hours() -> None:
    messages = [waiting(NOW), waiting(NOW + HOUR_MS - 1, group="g", handle=""), waiting(NOW + 5 * HOUR_MS)]
    first, later = by_hour(reversed(messages))
    assert (first.begin_ms, first.count, first.retries, first.cancellable) == (NOW, 2, 1, 1)
    assert (later.begin_ms, later.count) == (NOW + 5 * HOUR_MS, 1)
    assert by_hour([]) == []


def test_everything_that_was_told_is_shown() -> None:
    told = {"putTps": "10.0 5.0 1.0", "bootTimestamp": str(NOW - HOUR_MS), "strange": "<b>", "runtime": "", "x": ""}
    groups = {group.title: {fact.key: fact.text for fact in group.facts} for group in in_words(told, NOW)}
    rates = groups["Traffic"]["putTps"].replace("\u00a0", " ")
    assert rates == "10.0/s over 10 s, 5.0/s over 1 min, 1.0/s over 10 min"
    assert groups["Broker"]["bootTimestamp"].endswith("1 h ago")
    assert groups["Everything else"] == {"strange": "<b>", "x": ""}
    assert in_words({}, NOW) == []


def test_states_of_a_query() -> None:
    report = QueryReport(id="q", told_ms=NOW)
    assert pipeline_state(report, NOW + 1_000) is State.RUNNING
    assert pipeline_state(report, NOW + HOUR_MS) is State.SILENT
    assert pipeline_state(QueryReport(id="q", told_ms=NOW, ended_ms=NOW), NOW) is State.ENDED
    assert pipeline_state(QueryReport(id="q", told_ms=NOW, ended_ms=NOW, error="x"), NOW) is State.FAILED


def test_batches_of_a_minute() -> None:
    assert batches_per_min([QueryBatch(NOW + 10_000 * number, 5, 1) for number in range(4)]) == 6
    assert batches_per_min([QueryBatch(NOW, 5, 1)]) == batches_per_min([QueryBatch(NOW, 1, 1)] * 3) == 0


def test_a_question_to_the_audit_log_ignores_what_it_cannot_read() -> None:
    odd = question_of({"since": "x", "limit": "9999999", "outcome": "maybe", "user": " a "}, NOW)
    assert (odd.since_ms, odd.limit, odd.outcome, odd.user) == (0, 100, "", "a")
    asked = question_of({"since": "1 h", "limit": "250", "outcome": "refused"}, NOW)
    assert (asked.since_ms, asked.limit, asked.outcome) == (NOW - HOUR_MS, 250, "refused")


def test_changes_are_told_field_by_field() -> None:
    entry = AuditEntry(
        time_ms=1, server="s", address="a", action="x", outcome=AuditOutcome.DONE,
        changes={"Topic:a": ({"q": 4, "p": 6}, {"q": 8, "p": 6}), "Topic:b": (None, {"q": 1}), "Group:c": ("x", None)},
    )  # fmt: skip
    assert [(each.what, each.before, each.after) for each in changes_of(entry)] == [
        ("Topic:a q", "4", "8"),
        ("Topic:b", "", '{"q":1}'),
        ("Group:c", "x", ""),
    ]
