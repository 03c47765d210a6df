"""Header lists of requests: decoded (HPACK), checked by the rules of RFC 9113, section 8.

Whatever is not well-formed ends its stream; a block that cannot be decoded ends the connection, since the table of
names is shared by all streams.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyromq.compiled_core import Http2Lane
from pyromq.wire.http2.frames import Http2Code, Http2Error, Http2StreamError
from pyromq.wire.http2.hpack import HeaderListTooLargeError, HpackDecoder, HpackError

HEADER_LIST_BYTES_MAX: Final = 32 << 10  # as RFC 9113 counts them: 32 bytes beside name and value of each
BLOCK_BYTES_MAX: Final = 32 << 10
_CONNECTION_SPECIFIC: Final = frozenset(
    (b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade")
)
_PSEUDO: Final = frozenset((b":method", b":scheme", b":path", b":authority"))
_CONTENT_LENGTH: Final = b"content-length"


class RequestHead(NamedTuple):
    """A request without its body; names of ``fields`` are in lower case, the last of equal names counts."""

    method: bytes
    path: bytes
    fields: dict[bytes, bytes]
    content_length: int | None


class HeaderDecoder:
    """The receiving side of HPACK, for one connection."""

    def __init__(self, lane: Http2Lane | None = None) -> None:
        """``lane``: of the compiled core, which has the tables then."""
        self._lane = lane
        self._decoder = HpackDecoder(HEADER_LIST_BYTES_MAX) if lane is None else None

    @property
    def list_bytes(self) -> int:
        """How many bytes the last list has."""
        return self._decoder.list_bytes if self._decoder is not None else self._lane.list_bytes  # type: ignore[union-attr]

    def decode(self, block: bytes) -> list[tuple[bytes, bytes]]:
        """Decode a header block (HPACK). Raises Http2Error."""
        if self._decoder is None:
            return self._decode_by_core(block)
        try:
            return self._decoder.decode(block)
        except HeaderListTooLargeError as error:
            raise Http2Error(Http2Code.ENHANCE_YOUR_CALM, str(error)) from error
        except HpackError as error:
            raise Http2Error(Http2Code.COMPRESSION_ERROR, str(error)) from error

    def _decode_by_core(self, block: bytes) -> list[tuple[bytes, bytes]]:
        assert self._lane is not None
        pairs, text, is_too_large = self._lane.decode(block)
        if pairs is None:
            raise Http2Error(Http2Code.ENHANCE_YOUR_CALM if is_too_large else Http2Code.COMPRESSION_ERROR, text)
        return pairs


def read_request(pairs: list[tuple[bytes, bytes]]) -> RequestHead:
    """Read the head of a request. Raises Http2StreamError."""
    pseudo: dict[bytes, bytes] = {}
    fields: dict[bytes, bytes] = {}
    for name, value in pairs:
        if name[:1] == b":":
            if fields or name in pseudo or name not in _PSEUDO:
                raise _malformed(f"pseudo-header {name!r} is unknown, comes twice, or behind other fields")
            pseudo[name] = value
        else:
            fields[name] = value
    _check_fields(fields)
    method, path = pseudo.get(b":method", b""), pseudo.get(b":path", b"")
    if not method or not path or not pseudo.get(b":scheme"):
        raise _malformed("a request needs :method, :scheme and :path")
    length = fields.get(_CONTENT_LENGTH)
    if length is not None and not (length.isdigit() and len(length) < 20):
        raise _malformed("content-length is not a number")
    return RequestHead(method, path, fields, None if length is None else int(length))


def check_trailers(pairs: list[tuple[bytes, bytes]]) -> None:
    """Check the trailers of a request. Raises Http2StreamError."""
    if any(name[:1] == b":" for name, _ in pairs):
        raise _malformed("trailers have pseudo-headers")
    _check_fields(dict(pairs))


def _check_fields(fields: dict[bytes, bytes]) -> None:
    for name in fields:
        if not name or (not name.islower() and name.lower() != name):
            raise _malformed(f"field name {name!r} is empty or not in lower case")
    if not _CONNECTION_SPECIFIC.isdisjoint(fields):
        raise _malformed("fields of HTTP/1.1 connections do not belong here")
    if fields.get(b"te", b"trailers").lower() != b"trailers":
        raise _malformed("te may say trailers and nothing else")


def _malformed(text: str) -> Http2StreamError:
    return Http2StreamError(Http2Code.PROTOCOL_ERROR, text)
