"""What is wrong with a body, in one line: where, what was expected, and how the body begins."""

from __future__ import annotations

import re
from typing import Any, Final, NoReturn

from pyromq.errors import BodyError
from pyromq.typed.kinds import name_of

EXCERPT_BYTES_MAX: Final = 60
REASON_CHARACTERS_MAX: Final = 300
_PATH: Final = re.compile(r" - at `([^`]*)`$")


def body_error(annotation: Any, body: bytes, cause: Exception, content_type: str | None) -> BodyError:
    """From what a decoder raised."""
    path, reason = _path_and_reason(cause)
    return BodyError(
        expected=name_of(annotation),
        reason=one_line(reason, REASON_CHARACTERS_MAX),
        path=one_line(path, REASON_CHARACTERS_MAX),
        content_type=content_type or "",
        excerpt=excerpt_of(body),
    )


def raise_other_format(annotation: Any, body: bytes, content_type: str, formats: str) -> NoReturn:
    raise BodyError(
        expected=name_of(annotation),
        reason=f"the message is {one_line(content_type, 80)}, and {name_of(annotation)} is read from {formats}",
        path="",
        content_type=content_type,
        excerpt=excerpt_of(body),
    )


def _path_and_reason(cause: Exception) -> tuple[str, str]:
    if isinstance(cause, RecursionError):
        return "", "it is nested too deeply"
    if callable(details := getattr(cause, "errors", None)) and hasattr(cause, "error_count"):  # pydantic's
        first = details(include_url=False, include_context=False, include_input=False)[0]
        more = f" (and {count - 1} more)" if (count := cause.error_count()) > 1 else ""
        return _pydantic_path(first["loc"]), f"{first['msg']}{more}"
    text = str(cause) or type(cause).__name__
    if found := _PATH.search(text):
        return found[1], text[: found.start()]
    return "", text


def _pydantic_path(location: tuple[int | str, ...]) -> str:
    return "$" + "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in location)


def excerpt_of(body: bytes) -> str:
    """How a body begins, on one line and without control characters: text if it is, else bytes as Python shows them."""
    head = body[:EXCERPT_BYTES_MAX]
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3:  # not only the last character was cut
            text = ascii(head)
        else:
            text = head[: error.start].decode()
    shown = one_line(text, 4 * EXCERPT_BYTES_MAX)
    return f"{shown}… ({len(body)} bytes)" if len(body) > EXCERPT_BYTES_MAX else shown


def one_line(text: str, characters_max: int) -> str:
    """Without line ends and control characters, and not longer than this."""
    if not text.isprintable():
        text = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text[: characters_max + 1])
    return text if len(text) <= characters_max else f"{text[:characters_max]}…"
