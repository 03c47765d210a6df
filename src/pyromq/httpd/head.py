"""The head of an HTTP/1.1 request, read strictly: what is not plainly right is refused. No I/O.

    GET /metrics HTTP/1.1 \\r\\n  Host: 127.0.0.1:5557 \\r\\n  Accept: text/plain \\r\\n  \\r\\n

Only GET and HEAD without a body are served, so lengths and encodings of bodies, over which servers and proxies fall
out, are an error rather than something to interpret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

HEAD_BYTES_MAX: Final = 8_192
FIELDS_MAX: Final = 64
_is_token = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch
_is_target = re.compile(rb"/[\x21-\x7e]*").fullmatch
_is_value = re.compile(rb"[\t\x20-\x7e\x80-\xff]*").fullmatch
_VERSIONS: Final = (b"HTTP/1.1", b"HTTP/1.0")


class HttpError(Exception):
    """The request is answered with this status, and the connection closed."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class HttpRequest(NamedTuple):
    method: str
    path: str  # without its query
    headers: Mapping[str, str]  # by name in lower case
    keeps_alive: bool

    @property
    def host(self) -> str:
        """The name in the header Host, without its port."""
        given = self.headers.get("host", "")
        if given.startswith("["):
            return given[1:].partition("]")[0]
        return given.rpartition(":")[0] or given if given.count(":") == 1 else given


def parse_head(head: bytes) -> HttpRequest:
    """From the request line to the empty line. Raises HttpError."""
    if not head.endswith(b"\r\n\r\n"):
        raise HttpError(400, "the head of the request does not end")
    first, *lines = head[:-4].split(b"\r\n")
    words = first.split(b" ")
    if len(words) != 3 or words[2] not in _VERSIONS or not _is_token(words[0]):
        raise HttpError(400, "not a request of HTTP/1.1")
    method, target, version = words
    if not _is_target(target):
        raise HttpError(400, "the target of a request is a path, such as /metrics")
    if len(lines) > FIELDS_MAX:
        raise HttpError(431, f"more than {FIELDS_MAX} header fields")
    headers = _fields(lines)
    if version == b"HTTP/1.1" and "host" not in headers:
        raise HttpError(400, "the header Host is missing")
    if headers.get("transfer-encoding") or headers.get("content-length", "0") != "0":
        raise HttpError(413, "requests have no body here")
    connection = {word.strip().lower() for word in headers.get("connection", "").split(",")}
    keeps_alive = "close" not in connection if version == b"HTTP/1.1" else "keep-alive" in connection
    return HttpRequest(method.decode(), target.decode().partition("?")[0], headers, keeps_alive)


def _fields(lines: list[bytes]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not _is_token(name) or not _is_value(value):
            raise HttpError(400, "a header field is not of the form Name: value")
        key, text = name.decode().lower(), value.strip(b" \t").decode("latin-1")
        if key in found and key in ("host", "content-length", "transfer-encoding", "authorization"):
            raise HttpError(400, f"the header {key} is there twice")
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found
