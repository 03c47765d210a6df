"""Send statuses: the response codes of a send that mean "the message is stored", and how safely.

0, 10, 11 and 12; whoever sends asks here. A sender that takes 10, 11 or 12 for a failure and sends again makes a second
message of one.
"""

from __future__ import annotations

from typing import Final

from pyromq.model.message import UNSURE_STATUSES, SendStatus
from pyromq.wire.codes import ResponseCode

SEND_STATUSES: Final[dict[int, SendStatus]] = {
    int(ResponseCode.SUCCESS): SendStatus.SEND_OK,
    int(ResponseCode.FLUSH_DISK_TIMEOUT): SendStatus.FLUSH_DISK_TIMEOUT,
    int(ResponseCode.FLUSH_SLAVE_TIMEOUT): SendStatus.FLUSH_SLAVE_TIMEOUT,
    int(ResponseCode.SLAVE_NOT_AVAILABLE): SendStatus.SLAVE_NOT_AVAILABLE,
}
STORED_CODES: Final = frozenset(SEND_STATUSES)

UNSURE_CODES: Final = frozenset(code for code, status in SEND_STATUSES.items() if status in UNSURE_STATUSES)
