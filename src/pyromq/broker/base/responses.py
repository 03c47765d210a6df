"""Responses as handlers return them, and as they travel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pyromq.broker.base.refusals import RefusedError
from pyromq.errors import LocalProtocolError
from pyromq.net.connection import Connection
from pyromq.store.tables.steps import InSteps
from pyromq.wire.codes import ResponseCode
from pyromq.wire.command import encode_response
from pyromq.wire.fast.responses import success
from pyromq.wire.headers import Header
from pyromq.wire.received import Received

BODY_BYTES_MAX: Final = 1 << 20
"""Of every request that does not bring messages: reading more would keep all others waiting."""

Response = Header | bytes | tuple[Header, bytes] | None
"""Success: a header, a body, both or neither."""

Immediate = Callable[[Connection, Received[Any]], Response | InSteps[Callable[[], Response]]]
"""A handler that returns its response, or the steps of a long one (``long_responses``)."""

Deferred = Callable[[Connection, Received[Any]], None]
"""A handler that sends its response itself, now or when it can."""


def send_response(connection: Connection, request: Received[Any], response: Response) -> None:
    """What a handler returned, as a frame with the code for success. Raises RefusedError if no frame holds it."""
    if request.is_oneway:
        return
    if response is None:
        connection.send(success(request))
        return
    header: Header | None = None
    body = b""
    match response:
        case (header, body):
            pass
        case bytes():
            body = response
        case _:
            header = response
    code, serialize_type = ResponseCode.SUCCESS, request.serialize_type
    try:
        frame = encode_response(code, request.correlation_id, header, body=body, serialize_type=serialize_type)
    except LocalProtocolError as error:  # RocketMQ sends it all the same, and its clients drop the connection
        raise RefusedError(ResponseCode.SYSTEM_ERROR, f"the response does not fit: {error}") from error
    connection.send(frame)


def send_refusal(
    connection: Connection,
    request: Received[Any],
    code: ResponseCode,
    remark: str,
    ext: Mapping[str, str] | None = None,
) -> None:
    """Failure, said once and clearly."""
    if not request.is_oneway:
        serialize_type = request.serialize_type
        connection.send(
            encode_response(code, request.correlation_id, ext, remark=remark, serialize_type=serialize_type)
        )


def send_failure(connection: Connection, request: Received[Any], defect: Exception) -> None:
    """The request met a defect of the broker."""
    text = f"the broker failed on this request: {type(defect).__name__}: {defect}"
    send_refusal(connection, request, ResponseCode.SYSTEM_ERROR, text)


def pass_back(connection: Connection, request: Received[Any], response: Received[Any]) -> None:
    """The response of another process, as it is."""
    if not request.is_oneway:
        connection.send(
            encode_response(
                response.code,
                request.correlation_id,
                body=response.body,
                remark=response.remark,
                serialize_type=request.serialize_type,
            )
        )
