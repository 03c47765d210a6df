"""Failure capture: what an exception says of itself, as a ``Failure`` that travels with the message.

    class     module and name, of Python's own the name alone
    text      ``str(error)``, then the hooks that mask it, then cut; of a group of exceptions its first members, too
    stack     a hash of classes and of the functions in the tracebacks of the error and of its causes
    traceback on request: files, lines and functions from the listener on, causes first, masked as the text is, then cut

Only names of modules and functions are hashed: no line numbers, no addresses, no values. Frames of PyroMQ around the
listener, comprehensions and the repetitions of a recursion are left out, so the hash says nothing of how a listener was
called or how deep it was. Whatever an exception does when it is looked at, there is a failure to report; and what a
hook could not mask is not reported.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import dropwhile, islice
from traceback import StackSummary, walk_tb
from types import FrameType, TracebackType
from typing import Final, NamedTuple

import msgspec

from pyromq.model.failure import Failure, failure_from_text, hash_of, traceback_excerpt

logger = logging.getLogger(__name__)

Mask = Callable[[str], str]
"""Gets the text of an error, returns what may be stored of it."""

RAW_CHARACTERS_MAX: Final = 16_384  # of a text, before masks look at it
CHAIN_MAX: Final = 8  # errors of a chain of causes, or members of a group
FRAMES_MAX: Final = 64  # of a traceback, repetitions left out: the outermost half and the innermost
WALK_MAX: Final = 5_000  # frames that are looked at
MEMBERS_REPORTED: Final = 3
FRAMES_SHOWN: Final = 20  # of the traceback of one error: the innermost
SOURCE_CHARACTERS_MAX: Final = 200  # of a line of code
MASK_FAILED: Final = "(text left out: a hook that masks it failed)"
RETURNED_RETRY: Final = "RETRY returned"
TIMED_OUT: Final = "listener timed out"
_OWN: Final = "pyromq."
_COMPREHENSIONS: Final = frozenset(("<listcomp>", "<setcomp>", "<dictcomp>"))  # frames up to Python 3.11 alone


class Raised(NamedTuple):
    """What an exception says of itself, before masks have seen it; without references to what it went through."""

    error_class: str
    text: str
    stack: str
    traceback: str = ""

    def failure(self, masks: Sequence[Mask] = (), traceback_bytes: int = 0) -> Failure:
        """Where, when and in which attempt is to be added. A traceback has at most ``traceback_bytes`` bytes."""
        found = failure_from_text(self.error_class, masked(self.text, masks), self.stack)
        excerpt = traceback_excerpt(masked(self.traceback, masks), traceback_bytes) if self.traceback else ""
        return msgspec.structs.replace(found, traceback=excerpt) if excerpt else found


def raised_of(error: BaseException, *, with_traceback: bool = False) -> Raised:
    """However it behaves when it is looked at."""
    traceback = traceback_of(error) if with_traceback else ""
    return Raised(class_name(type(error)), text_of(error), stack_hash(error), traceback)


def class_name(kind: type[BaseException]) -> str:
    try:
        name = str(kind.__qualname__).replace(".<locals>", "")
        module = str(kind.__module__)
    except Exception:  # a metaclass may do anything
        return "unknown"
    return name if module == "builtins" else f"{module}.{name}"


def text_of(error: BaseException) -> str:
    """Its text, at most ``RAW_CHARACTERS_MAX`` characters; members of a group follow."""
    text = _own_text(error)
    if isinstance(error, BaseExceptionGroup):
        members = [f"{class_name(type(each))}: {_own_text(each)}" for each in error.exceptions[:MEMBERS_REPORTED]]
        text = f"{text}: {'; '.join(members)}"
    return text[:RAW_CHARACTERS_MAX]


def masked(text: str, masks: Sequence[Mask]) -> str:
    """What hooks leave of a text; nothing if one of them fails: what it would have hidden stays hidden."""
    for mask in masks:
        try:
            text = mask(text)
            if not isinstance(text, str):
                raise TypeError(f"it returned {type(text).__name__}, not text")
        except Exception:  # a hook is the application's
            logger.exception("hook that masks errors failed, their text is left out: hook=%r", _name_of(mask))
            return MASK_FAILED
    return text


def traceback_of(error: BaseException) -> str:
    """Tracebacks of an error and of its causes from the listener on, the error itself last; empty if never raised.

    Only names, numbers of lines and lines of code are in it, no values of variables but what the texts of errors say.
    """
    parts: list[str] = []
    for each in reversed(_chain(error)):
        walked = islice(walk_tb(each.__traceback__), WALK_MAX)
        summary = StackSummary.extract(dropwhile(_is_around, walked), limit=-FRAMES_SHOWN)
        for frame in summary:
            parts.append(f'  File "{_short_path(frame.filename)}", line {frame.lineno}, in {frame.name}')
            parts += [f"    {frame.line[:SOURCE_CHARACTERS_MAX]}"] if frame.line else []
        parts.append(f"{class_name(type(each))}: {' '.join(_own_text(each).split())}")
    return "\n".join(parts) if len(parts) > 1 else ""


def _is_around(step: tuple[FrameType, int]) -> bool:
    """Whether a frame is PyroMQ's own around the listener, or a comprehension of it."""
    return f"{step[0].f_globals.get('__name__', '')}.".startswith(_OWN)


def _short_path(path: str) -> str:
    """A file as it is imported: without the folder of the interpreter's path that it lies in."""
    folders = [folder for folder in sys.path if folder and path.startswith(folder.rstrip(os.sep) + os.sep)]
    longest = max(folders, key=len, default="")
    return path[len(longest) :].lstrip(os.sep) if longest else path


def stack_hash(error: BaseException) -> str:
    """Hash that is equal for equal errors, however their listener was called; ``""`` if it was never raised."""
    if error.__traceback__ is None and error.__cause__ is None:
        return ""
    return hash_of(_words(error))


def _words(error: BaseException) -> Iterator[str]:
    for each in _chain(error):
        yield class_name(type(each))
        for module, function in _functions(each.__traceback__):
            yield module
            yield function


def _chain(error: BaseException) -> list[BaseException]:
    """The error, its causes, and the members of a group; each once."""
    found: list[BaseException] = []
    seen: set[int] = set()
    waiting = [error]
    while waiting and len(found) < CHAIN_MAX:
        each = waiting.pop(0)
        if id(each) in seen:
            continue
        seen.add(id(each))
        found.append(each)
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions[:CHAIN_MAX]
        cause = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
        if cause is not None:
            waiting.append(cause)
    return found


def _functions(traceback: TracebackType | None) -> list[tuple[str, str]]:
    """Module and function of each frame from the listener on, outermost first."""
    found: list[tuple[str, str]] = []
    seen: set[tuple[str, str]] = set()
    looked_at = 0
    while traceback is not None and looked_at < WALK_MAX:
        frame = traceback.tb_frame
        code = frame.f_code
        place = str(frame.f_globals.get("__name__", "")), code.co_qualname
        is_around = not found and _is_around((frame, 0))
        if place not in seen and not is_around and code.co_name not in _COMPREHENSIONS:
            seen.add(place)
            found.append(place)
        traceback = traceback.tb_next
        looked_at += 1
    half = FRAMES_MAX // 2
    return found if len(found) <= FRAMES_MAX else [*found[:half], *found[-half:]]


def _own_text(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception as own:  # also RecursionError
        return f"(no text: str() of it raised {class_name(type(own))})"
    return str.__str__(text)[:RAW_CHARACTERS_MAX]


def _name_of(mask: Mask) -> str:
    return str(getattr(mask, "__qualname__", type(mask).__qualname__))
