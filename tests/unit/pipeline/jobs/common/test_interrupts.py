"""Ctrl-C never comes in the middle of a call to Spark."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pyromq.pipeline.jobs.common.interrupts import noted_interrupts
from pyromq.pipeline.jobs.common.queries import drain


@pytest.fixture(autouse=True)
def handler() -> Iterator[Any]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def test_the_first_is_noted_and_the_second_is_one_as_ever(handler: Any) -> None:
    with noted_interrupts() as interrupt:
        assert not interrupt.is_wanted
        signal.raise_signal(signal.SIGINT)
        assert interrupt.is_wanted
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is handler


def test_who_ignores_it_goes_on_ignoring_it() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with noted_interrupts() as interrupt:
        signal.raise_signal(signal.SIGINT)
    assert not interrupt.is_wanted


def test_other_threads_leave_it_alone(handler: Any) -> None:
    seen = []

    def work() -> None:
        with noted_interrupts():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [handler]


class Interrupted:
    """A query that goes on until it is stopped; Ctrl-C is pressed while it is asked for the second time."""

    def __init__(self) -> None:
        self.looks = 0
        self.isActive = True
        self.recentProgress = [{"batchId": 0, "numInputRows": 7, "sources": []}]

    def awaitTermination(self, timeout: float) -> bool:  # noqa: N802
        if self.looks == 1:
            signal.raise_signal(signal.SIGINT)
        self.looks += 1  # the call is not cut off
        return not self.isActive

    def stop(self) -> None:
        self.isActive = False


def test_an_endless_query_is_stopped_between_two_looks() -> None:
    query: Any = Interrupted()
    assert drain(query, endless=True) == 7
    assert (query.looks, query.isActive) == (2, False)


def test_a_query_that_would_have_ended_is_stopped_and_that_is_told() -> None:
    query: Any = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        drain(query)
    assert (query.looks, query.isActive) == (2, False)
