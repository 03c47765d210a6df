"""The first bytes of a connection: the preface of HTTP/2, or something else that gets a text to read."""

from __future__ import annotations

from typing import Final

from pyromq.wire.http2 import frames

HELP: Final = (
    "This port speaks gRPC: clients of RocketMQ 5 connect to it. Clients of the remoting protocol use the port of the "
    "broker or of the name server.\n"
)
_HTTP_1: Final = f"HTTP/1.1 400 Bad Request\r\nContent-Length: {len(HELP)}\r\nConnection: close\r\n\r\n{HELP}".encode()
_HTTP_1_BEGINS: Final = (b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI")


class Preface:
    """Collects the preface of one connection."""

    def __init__(self) -> None:
        self.is_complete = False
        self._begun = bytearray()

    def feed(self, data: bytes) -> bytes | None:
        """What follows the preface, empty while it is not complete; None: it is another protocol."""
        self._begun += data
        begun = bytes(self._begun[: len(frames.PREFACE)])
        if not frames.PREFACE.startswith(begun):
            return None
        if len(begun) < len(frames.PREFACE):
            return b""
        self.is_complete = True
        rest = bytes(self._begun[len(frames.PREFACE) :])
        self._begun.clear()
        return rest

    @property
    def refusal(self) -> bytes:
        """What somebody who speaks another protocol is answered: a text for HTTP/1, otherwise nothing."""
        return _HTTP_1 if bytes(self._begun[:4]) in _HTTP_1_BEGINS else b""
