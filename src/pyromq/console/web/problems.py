"""Problems: which error gets which HTTP status, and RFC 9457's JSON for it."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final, TypeVar

import msgspec
from starlette.responses import Response

from pyromq.console.web.visit import BadRequestError, BodyTooLargeError, FieldError
from pyromq.errors import (
    BodyError,
    BrokerError,
    ClientClosedError,
    ConfigError,
    GroupNotFoundError,
    GroupOfflineError,
    LocalProtocolError,
    MQError,
    NoPermissionError,
    NoSuchJobError,
    NotFoundError,
    NoWritableQueueError,
    RemoteProtocolError,
    RequestTimeoutError,
    SendFailedError,
    ServiceNotAvailableError,
    StoreNotFoundError,
    SystemBusyError,
    TopicNotFoundError,
    TransportError,
    printable,
)


class NotSignedInError(MQError):
    """Sign in, or send a token."""


class ForbiddenError(MQError):
    """The role of whoever asked does not allow it, or the request did not come from our own page."""


class NoSuchPageError(MQError):
    """There is nothing at that address."""


class NotAllowedHereError(MQError):
    """The address takes other methods; ``allowed`` are those."""

    def __init__(self, allowed: str) -> None:
        super().__init__(f"this address takes {allowed}")
        self.allowed = allowed


class TooManyError(MQError):
    """Too many at once, or too many tries: come back in ``wait_ms``."""

    def __init__(self, text: str, *, wait_ms: int) -> None:
        super().__init__(text)
        self.wait_ms = wait_ms


T = TypeVar("T")
U = TypeVar("U")


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """RFC 9457. ``detail`` says what is the matter and what to do."""

    title: str
    status: int
    detail: str
    type: str = "about:blank"
    code: int | None = None
    """The code of the server that refused, if one did."""


# The first class that fits counts.
_STATUS: Final[tuple[tuple[type[MQError], int, str], ...]] = (
    (NotSignedInError, 401, "Not signed in"),
    (ForbiddenError, 403, "Not allowed"),
    (NoSuchPageError, 404, "Not found"),
    (NotAllowedHereError, 405, "Method not allowed"),
    (TooManyError, 429, "Too many requests"),
    (BodyTooLargeError, 413, "Too large"),
    (BadRequestError, 400, "Bad request"),
    (TopicNotFoundError, 404, "No such topic"),
    (GroupNotFoundError, 404, "No such group"),
    (NotFoundError, 404, "Not found"),
    (StoreNotFoundError, 404, "No such store"),
    (NoSuchJobError, 404, "No such job"),
    (NoPermissionError, 403, "The cluster refused"),
    (GroupOfflineError, 409, "No member is connected"),
    (NoWritableQueueError, 409, "Nothing takes messages of this topic"),
    (SystemBusyError, 503, "The broker is busy"),
    (ServiceNotAvailableError, 503, "The broker takes no messages"),
    (RequestTimeoutError, 504, "No response in time"),
    (RemoteProtocolError, 502, "A server answered what cannot be read"),
    (TransportError, 502, "A server cannot be reached"),
    (ClientClosedError, 503, "The console is going down"),
    (BrokerError, 409, "The broker refused"),
    (SendFailedError, 502, "The message was not confirmed"),
    (BodyError, 422, "The body is not what was asked for"),
    (ConfigError, 422, "Cannot be done as asked"),
    (LocalProtocolError, 422, "Cannot be done as asked"),
    (MQError, 409, "It did not work"),
)
STATUSES: Final = tuple(sorted({status for _, status, _ in _STATUS} | {500}))


def problem_of(error: Exception) -> Problem:
    """Errors that are not ours tell their class to the log only."""
    if not isinstance(error, MQError):
        text = "something in the console failed; its log says what"
        return Problem(title="Internal error", status=500, detail=text)
    if isinstance(error, FieldError) and error.cause is not None:
        return problem_of(error.cause)
    if isinstance(error, SendFailedError) and error.attempts and not error.maybe_stored:
        inner = problem_of(error.attempts[-1].error)
        return msgspec.structs.replace(inner, detail=printable(str(error)))
    status, title = next((status, title) for kind, status, title in _STATUS if isinstance(error, kind))
    code = error.code if isinstance(error, BrokerError) else None
    detail = printable(error.remark if isinstance(error, BrokerError) else str(error))
    return Problem(title=title, status=status, detail=detail or title, code=code)


def headers_of(error: Exception) -> dict[str, str]:
    if isinstance(error, TooManyError):
        return {"Retry-After": str(-(-error.wait_ms // 1000))}
    if isinstance(error, NotAllowedHereError):
        return {"Allow": error.allowed}
    return {"WWW-Authenticate": "Bearer"} if isinstance(error, NotSignedInError) else {}


def problem_response(error: Exception) -> Response:
    problem = problem_of(error)
    content = msgspec.json.encode(problem)
    return Response(content, problem.status, headers_of(error), media_type="application/problem+json")


async def or_problem(work: Awaitable[T], otherwise: U) -> tuple[T | U, str]:
    """Return what the cluster answers, and no text; or something else, and why it does not answer."""
    try:
        return await work, ""
    except MQError as error:
        return otherwise, printable(str(error))
