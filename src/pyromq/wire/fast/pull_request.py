"""Pull requests at the beginning of what was read, without the steps in between: no frame, no copy of the header.

The plain form is ``FrameDecoder`` and ``decode_received``; whatever is not read here goes there.
"""

from __future__ import annotations

from typing import Final

import msgspec

from pyromq.wire.codes import RequestCode
from pyromq.wire.ext import JSON_ERRORS
from pyromq.wire.frame import PREFIX_BYTES, unpack_prefix
from pyromq.wire.headers.consumer import PullHeader
from pyromq.wire.received import HEADER_BYTES_DECODED_MAX, Received

_CODE: Final = int(RequestCode.PULL_MESSAGE)
_decode = msgspec.json.Decoder(Received[PullHeader], strict=False).decode


def read_pull(data: bytes | bytearray | memoryview, at: int) -> tuple[Received[PullHeader], int] | None:
    """The pull whose frame begins there, and where that ends; None for anything else, and for what is not whole.

    It is one in JSON, without a body, that wants an answer; its ``frame`` is left out.
    """
    if len(data) - at < PREFIX_BYTES:
        return None
    length, header_size = unpack_prefix(data, at)
    end = at + 4 + length
    if header_size + 4 != length or end > len(data) or length > HEADER_BYTES_DECODED_MAX:
        return None
    try:
        received = _decode(data[at + PREFIX_BYTES : end])
    except JSON_ERRORS:
        return None
    return (received, end) if received.code == _CODE and not received.flag else None
