"""Settings of a console: where it listens, which cluster it shows, who may sign in, and its bounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from pyromq.errors import ConfigError
from pyromq.security.secret import Secret

DEFAULT_PORT: Final = 8082  # that of RocketMQ's dashboard
PASSWORD_VARIABLE: Final = "PYROMQ_CONSOLE_PASSWORD"
VIEWER_PASSWORD_VARIABLE: Final = "PYROMQ_CONSOLE_VIEWER_PASSWORD"
TOKEN_VARIABLE: Final = "PYROMQ_CONSOLE_TOKEN"
TOKEN_CHARACTERS_MIN: Final = 32


@dataclass(frozen=True, slots=True)
class ScryptCost:
    """What checking a password costs, and so what guessing one costs: 32 MiB and about a quarter of a second."""

    n: int = 1 << 15
    r: int = 8
    p: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    """``data`` keeps hashed passwords, tokens and jobs; without it they are gone with the process.

    ``allowed_hosts`` are names under which browsers may ask for the console, beside ``localhost`` and plain addresses:
    a page of somebody else whose name is made to lead here has another one. Raises ConfigError.
    """

    nameservers: str = "127.0.0.1:9876"
    label: str = ""  # what pages say they show, where it is not the name servers: the folder of a store
    read_only: bool = False  # nobody is an operator
    host: str = "127.0.0.1"
    port: int | None = None  # None: the default, and another one where that is taken; 0: any
    data: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    behind_https: bool = False  # a proxy speaks TLS for it: cookies are for https alone
    insecure_network: bool = False
    allowed_hosts: tuple[str, ...] = ()

    password: Secret = field(default_factory=Secret)  # of admin; empty: generated once
    viewer_password: Secret = field(default_factory=Secret)  # of viewer; empty: there is none
    token: Secret = field(default_factory=Secret)  # an operator's, for programs
    scrypt: ScryptCost = field(default_factory=ScryptCost)
    idle_ms_max: int = 60 * 60_000
    session_ms_max: int = 12 * 3_600_000
    sessions_max: int = 1_000

    body_bytes_max: int = 8 << 20  # of one request
    streams_max: int = 64  # open at the same time, of all visitors
    refresh_ms: int = 2_000  # how often streams look
    first_paint_ms: int = 600  # how long a list waits for its numbers; those that come later are filled in

    def __post_init__(self) -> None:
        if self.port is not None and not 0 <= self.port <= 65_535:
            raise ConfigError(f"port {self.port}: ports are numbers from 0 (any free one) to 65535")
        if (self.certificate is None) != (self.key is None):
            raise ConfigError("a certificate of the console needs its private key, and the key its certificate")
        if self.token and len(self.token.reveal()) < TOKEN_CHARACTERS_MIN:
            text = f"{TOKEN_VARIABLE} has fewer than {TOKEN_CHARACTERS_MIN} characters"
            raise ConfigError(f"{text}: make one with python -c 'import secrets; print(secrets.token_urlsafe(32))'")
        if not self.is_local and not self.is_encrypted and not self.insecure_network:
            raise ConfigError(
                f"{self.host} can be reached from other machines, and passwords would travel readable. Listen on "
                "127.0.0.1, give the console a certificate (--certificate, --key), say --behind-https where a proxy "
                "has one, or --insecure-network if a firewall keeps strangers out"
            )

    @property
    def is_encrypted(self) -> bool:
        """From the browser's point of view."""
        return self.certificate is not None or self.behind_https

    @property
    def is_local(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host.partition("%")[0]).is_loopback
        except ValueError:
            return False
