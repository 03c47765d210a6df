"""Response codes of a send that say that the message is stored, as safely as was asked or not."""

from __future__ import annotations

from typing import Final

from pyromq.wire.codes import ResponseCode

STORED: Final = frozenset(
    (
        ResponseCode.SUCCESS,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
    )
)
