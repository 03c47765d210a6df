"""Spark's daemon of Python workers, quiet where Spark needs no more of an answer.

Spark closes the socket of a worker that has said enough: a task whose rows are limited, a process that helped to plan.
The worker finds out when it writes its last bytes, and ends; the daemon prints a traceback for that, which looks like a
failure and is none. Errors of tasks are another matter: a worker hands them to Spark, and the daemon prints others.

Spark runs the daemon for planning under a name that no setting changes, so this is done in the worker, by the source.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from types import ModuleType, TracebackType
from typing import Any, Final

DAEMON: Final = "pyspark.daemon"


def hush_closed_sockets(main: ModuleType | None = None) -> bool:
    """In a worker that Spark's daemon has forked, and nowhere else. Whether this is one."""
    main = main or sys.modules["__main__"]
    if getattr(getattr(main, "__spec__", None), "name", "") != DAEMON:
        return False
    traceback.print_exc = quiet(traceback.print_exc, str(main.__file__))
    return True


def quiet(tell: Callable[..., Any], daemon_file: str) -> Callable[..., Any]:
    """``traceback.print_exc``, silent for sockets that the daemon itself found closed."""

    def print_exc(*arguments: Any, **named: Any) -> None:
        _, error, trace = sys.exc_info()
        if isinstance(error, BrokenPipeError | ConnectionResetError) and _raised_in(trace) == daemon_file:
            return
        tell(*arguments, **named)

    return print_exc


def _raised_in(trace: TracebackType | None) -> str:
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_filename if trace is not None else ""
