"""One RPC: its message is decoded, its client found, and whatever goes wrong is answered with a status."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from pyromq.broker.grpc.clients import GrpcClient, GrpcClients
from pyromq.broker.grpc.statuses import StatusError, status_of_error, status_of_response
from pyromq.errors import MQError
from pyromq.net.http2 import CallMethod, GrpcCall
from pyromq.wire.grpc.codes import StatusCode
from pyromq.wire.grpc.definitions import Status, status_of
from pyromq.wire.grpc.framing import GrpcError, GrpcStatus
from pyromq.wire.grpc.protobuf import Proto, ProtobufError, decode
from pyromq.wire.grpc.services import StatusResponse
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)

Answer = Callable[[GrpcClient, Any, GrpcCall], Coroutine[Any, Any, Proto | None]]
"""The response; None when the call is answered already."""

Failure = Callable[[Any, Status], list[Proto]]
"""The responses to a request that ends with this status."""


def plain_failure(request: Any, status: Status) -> list[Proto]:
    return [StatusResponse(status=status)]


def read_message(kind: type[Any], data: bytes) -> Any:
    """Decode a protobuf message. Raises GrpcError."""
    try:
        return decode(kind, data)
    except ProtobufError as error:
        raise GrpcError(GrpcStatus.INVALID_ARGUMENT, str(error)) from error


def checked(response: Received[Any]) -> Received[Any]:
    """The broker's response if it is a success. Raises StatusError."""
    if response.code:
        status = status_of_response(response)
        raise StatusError(StatusCode(status.code), status.message)
    return response


class Rpc:
    """Answers calls in tasks of their own; a call whose client gives up is cancelled."""

    def __init__(
        self, clients: GrpcClients, kind: type[Proto], answer: Answer, failure: Failure = plain_failure
    ) -> None:
        self._clients = clients
        self._kind = kind
        self._answer = answer
        self._failure = failure
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def method(self) -> CallMethod:
        return CallMethod(self._handle)

    def _handle(self, call: GrpcCall, data: bytes) -> None:
        request = read_message(self._kind, data)
        try:
            client = self._clients.of(call)
        except MQError as error:
            self._fail(call, request, status_of_error(error))
            return
        task = asyncio.get_running_loop().create_task(self._run(client, request, call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        call.on_closed = task.cancel  # type: ignore[assignment]  # that it was cancelled interests nobody

    async def _run(self, client: GrpcClient, request: Any, call: GrpcCall) -> None:
        try:
            response = await self._answer(client, request, call)
            if response is not None:
                call.respond(response.encode())
        except GrpcError as error:
            call.finish(error.status, str(error))
        except MQError as error:
            self._fail(call, request, status_of_error(error))
        except Exception as error:  # a defect of ours ends one call
            logger.exception("call failed: request=%s peer=%s", type(request).__name__, call.peer)
            text = f"the broker failed on this request: {type(error).__name__}"
            self._fail(call, request, status_of(StatusCode.INTERNAL_SERVER_ERROR, text))

    def _fail(self, call: GrpcCall, request: Any, status: Status) -> None:
        for response in self._failure(request, status):
            call.send(response.encode())
        call.finish()
