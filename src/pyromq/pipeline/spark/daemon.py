"""Spark's daemon of Python workers, quiet where Spark needs no more of an answer: ``spark.python.daemon.module``.

A task that has enough rows (a limit, ``show()``) and a query that ends close the socket of their worker. The worker
finds out when it writes, and ends; Spark's own daemon prints a traceback for that, which looks like a failure and is
none. Errors of tasks are another matter: a worker hands them to Spark, as always.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NoReturn


def quiet(work: Callable[[Any, bool], int], leave: Callable[[int], NoReturn] = os._exit) -> Callable[[Any, bool], int]:
    """What a forked worker does, ending it without a word when its socket is closed."""

    def worker(sock: Any, authenticated: bool) -> int:
        try:
            return work(sock, authenticated)
        except (BrokenPipeError, ConnectionResetError):
            leave(1)  # as the daemon does, which prints first

    return worker


if __name__ == "__main__":
    from pyspark import daemon

    daemon.worker = quiet(daemon.worker)  # type: ignore[assignment]  # what its loop calls by name
    daemon.manager()
