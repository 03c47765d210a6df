"""Layers: checks in front of the handlers of some request codes, such as quotas or the refusals of a replica."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final, NamedTuple, TypeVar

from pyromq.broker.base.refusals import RefusedError
from pyromq.net.connection import Connection
from pyromq.wire.codes import ResponseCode
from pyromq.wire.received import Received

H = TypeVar("H", bound=Callable[..., Any])
Wrap = Callable[[int, Any], Any]
"""Makes a handler of a handler, for one request code."""


class Layer(NamedTuple):
    """Stands in front of the handlers of ``codes`` (None: of all), with one wrapper for each kind of handler."""

    codes: frozenset[int] | None
    immediate: Wrap
    deferred: Wrap

    def covers(self, code: int) -> bool:
        return self.codes is None or code in self.codes


def as_it_is(code: int, handler: Any) -> Any:
    """The wrapper that changes nothing."""
    return handler


def layer(codes: Collection[int] | None, wrap: Wrap) -> Layer:
    """A layer that treats both kinds of handlers alike."""
    return Layer(None if codes is None else frozenset(codes), wrap, wrap)


def checking(codes: Collection[int], check: Callable[[], None]) -> Layer:
    """Calls ``check``, which may raise, before each handler."""

    def wrap(code: int, handler: Any) -> Any:
        def checked(connection: Connection, request: Received[Any]) -> Any:
            check()
            return handler(connection, request)

        return checked

    return layer(codes, wrap)


def refusing(codes: Collection[int] | None, code: ResponseCode, remark: str) -> Layer:
    """Answers these requests with an error."""
    return layer(codes, lambda _code, _handler: _refusal(code, remark))


def refusing_each(refusals: dict[int, tuple[ResponseCode, str]]) -> Layer:
    """Answers each of these requests with its own error."""
    return layer(refusals, lambda code, _handler: _refusal(*refusals[code]))


def _refusal(code: ResponseCode, remark: str) -> Any:
    def refuse(connection: Connection, request: Received[Any]) -> None:
        raise RefusedError(code, remark)

    return refuse


STOPPING: Final = Layer(
    None,
    as_it_is,
    refusing(None, ResponseCode.SERVICE_NOT_AVAILABLE, "the broker is stopping; use another one").deferred,
)
"""Refuses what would be answered later, else the last commit might never come."""

BETWEEN_ROLES: Final = refusing(None, ResponseCode.SERVICE_NOT_AVAILABLE, "the broker changes its role; try again")
