"""How long a receive waits: as its client asks, within bounds, and so that the answer is there before the deadline."""

from __future__ import annotations

from typing import Final

from pyromq.broker.grpc.clients import GrpcClient
from pyromq.broker.grpc.statuses import StatusError
from pyromq.net.http2 import GrpcCall
from pyromq.wire.grpc.codes import StatusCode
from pyromq.wire.grpc.definitions import ProtoTime

SHORTEST_MS: Final = 5_000
LONGEST_MS: Final = 20_000
_ON_THE_WAY_MS: Final = 500  # the answer has to arrive, too
_REQUEST_TIMEOUT_MS: Final = 3_000
_KNOWS_THE_CODE: Final = (5, 0, 3)


def polling_ms(wanted: ProtoTime | None, call: GrpcCall, client: GrpcClient, now_ms: int) -> int:
    """How long a receive may wait, by its wish and its deadline. Raises StatusError when the deadline is too near."""
    left_ms = None if call.deadline_ms is None else int(call.deadline_ms - now_ms)
    if left_ms is not None and left_ms < SHORTEST_MS:
        code = StatusCode.ILLEGAL_POLLING_TIME if version_of(client) >= _KNOWS_THE_CODE else StatusCode.BAD_REQUEST
        text = f"the deadline of a receive is at least {SHORTEST_MS} ms away, this one {left_ms} ms"
        raise StatusError(code, text)
    if wanted is not None:
        found = wanted.ms
    else:
        timeout = client.settings.request_timeout if client.settings else None
        request_ms = timeout.ms if timeout else _REQUEST_TIMEOUT_MS
        found = LONGEST_MS if left_ms is None else left_ms - request_ms // 2
    found = min(max(found, SHORTEST_MS), LONGEST_MS)
    return found if left_ms is None else max(0, min(found, left_ms - _ON_THE_WAY_MS))


def version_of(client: GrpcClient) -> tuple[int, ...]:
    """Version of a client as numbers; a part that is none counts as 0."""
    return tuple(int(each) if each.isdecimal() else 0 for each in client.version.split("-")[0].split(".")[:3])
