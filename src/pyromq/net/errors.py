"""Errors of connections beside those in ``pyromq.errors``."""

from __future__ import annotations

from pyromq.errors import RemoteProtocolError, RetryAdvice, TransportError


class TooManyRequestsError(TransportError):
    """Too many requests of this connection wait for a response: await some of them, or raise the bound."""

    retry = RetryAdvice.SAME_BROKER

    def __init__(self, *, peer: str, in_flight_max: int) -> None:
        super().__init__(
            f"{in_flight_max} requests to {peer} already wait for a response: await some of them first", peer=peer
        )
        self.in_flight_max = in_flight_max


class PreambleError(RemoteProtocolError):
    """The first bytes of a connection announce the PROXY protocol and then break it."""
