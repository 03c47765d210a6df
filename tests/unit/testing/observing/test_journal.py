from __future__ import annotations

import threading

import pytest

from pyromq.testing.observing import journal as journals
from pyromq.testing.observing.journal import Journal, JournalEventKind


def test_the_oldest_events_are_forgotten_and_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journals, "EVENTS_MAX", 3)
    journal = Journal(lambda: 1_000)
    for number in range(5):
        journal.add(JournalEventKind.COMMITTED, group="g", text=str(number))
    assert [event.text for event in journal] == ["2", "3", "4"] and journal.forgotten == 2
    assert journal.lines()[0] == "  … 2 earlier events"
    assert journal.lines(lines_max=1) == ["  … 4 earlier events", "         0.000 s  committed     g            4"]


def test_lines_are_those_of_a_group_and_a_topic_and_of_the_broker_itself() -> None:
    journal = Journal(lambda: 1_000)
    journal.add(JournalEventKind.COMMITTED, group="a", topic="t", text="one")
    journal.add(JournalEventKind.COMMITTED, group="b", topic="t", text="two")
    journal.add(JournalEventKind.COMMITTED, group="a", topic="u", text="three")
    journal.add(JournalEventKind.LIFE, text="restarted")
    assert [line.split()[-1] for line in journal.lines(group="a", topic="t")] == ["one", "restarted"]
    assert [line.split()[-1] for line in journal.lines()] == ["one", "two", "three", "restarted"]
    assert [event.text for event in journal.of(JournalEventKind.COMMITTED, group="b")] == ["two"]


def test_threads_may_write_while_others_read() -> None:
    journal = Journal(lambda: 0)
    writers = [
        threading.Thread(target=lambda: [journal.add(JournalEventKind.LIFE, text="x") for _ in range(1_000)])
        for _ in range(3)
    ]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        journal.lines()
    assert len(list(journal)) == 3_000
