"""Where a peer is."""

from __future__ import annotations

from typing import NamedTuple

from pyromq.errors import ConfigError


class Address(NamedTuple):
    """Host and port; ``str`` gives ``host:port``, an IPv6 host in brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> Address:
        """``host:port``, split at the last colon as RocketMQ does, so IPv6 works without brackets too.

        Raises ConfigError.
        """
        host, colon, digits = text.strip().rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        if not colon or not host or not (digits.isascii() and digits.isdigit()) or int(digits) > 0xFFFF:
            raise ConfigError(f"{text!r} is no address; write host:port")
        return cls(host, int(digits))
