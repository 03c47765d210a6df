"""Stack dump: where threads and tasks are at the moment, as text: a name, then its calls, the innermost last."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from types import FrameType
from typing import Any, Final

STACK_DEPTH_MAX: Final = 64
TASKS_MAX: Final = 1_000


def dump_stacks(loop: asyncio.AbstractEventLoop | None = None) -> str:
    """Every thread, and every task of a loop; call it on the loop's thread."""
    threads = {thread.ident: thread for thread in threading.enumerate()}
    parts = [_thread_text(threads.get(ident), ident, frame) for ident, frame in sys._current_frames().items()]
    tasks = sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name()) if loop else []
    parts += [task_text(task) for task in tasks[:TASKS_MAX]]
    if len(tasks) > TASKS_MAX:
        parts.append(f"… {len(tasks) - TASKS_MAX} more tasks\n")
    return "\n".join(parts)


def thread_text(ident: int) -> str | None:
    """One thread; None when it has ended."""
    frame = sys._current_frames().get(ident)
    if frame is None:
        return None
    found = [thread for thread in threading.enumerate() if thread.ident == ident]
    return _thread_text(found[0] if found else None, ident, frame)


def task_text(task: asyncio.Task[Any]) -> str:
    """One task, through everything that it awaits: asyncio's own print ends at the first coroutine."""
    return f'task "{task.get_name()}"\n' + "".join(_awaiting(task.get_coro()))


def _thread_text(thread: threading.Thread | None, ident: int, frame: FrameType) -> str:
    name, kind = (thread.name, " daemon" if thread.daemon else "") if thread else ("unknown", "")
    return f'thread "{name}" id={ident}{kind}\n' + "".join(traceback.format_stack(frame)[-STACK_DEPTH_MAX:])


def _awaiting(awaited: Any) -> list[str]:
    lines: list[str] = []
    while awaited is not None and len(lines) < STACK_DEPTH_MAX:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is None:
            break
        lines += traceback.format_list(traceback.StackSummary.extract([(frame, frame.f_lineno)]))
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return lines
