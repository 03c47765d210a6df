"""Work in steps: a generator that lets its caller do something else in between.

It yields None after every piece of about a millisecond, or a job for a worker thread, whose result (or exception) it is
given at the place of the yield. ``step`` takes one step and runs such a job on the calling thread.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

T = TypeVar("T")
Work = Callable[[], Any]
InSteps = Generator[Work | None, Any, T]


def step(steps: InSteps[Any], work: Work | None) -> Work | None:
    """The next step, after the work that the last one asked for; raises StopIteration at the end."""
    if work is None:
        return next(steps)
    try:
        result = work()
    except Exception as error:  # the steps decide what becomes of it
        return steps.throw(error)
    return steps.send(result)


def all_steps(steps: InSteps[T]) -> T:
    """All of them now, on this thread."""
    work: Work | None = None
    while True:
        try:
            work = step(steps, work)
        except StopIteration as end:
            result: T = end.value
            return result
