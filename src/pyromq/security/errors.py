"""What access control refuses."""

from __future__ import annotations

from pyromq.errors import ConfigError, MQError, shortened


class AccessDeniedError(MQError):
    """A request that its sender may not make, or whose sender is not who it says."""


class UnknownUserError(AccessDeniedError):
    """Nobody has the name that a request or a certificate gives; the text is RocketMQ's."""

    def __init__(self, name: str) -> None:
        super().__init__(f"User:{shortened(name, 255)} is not found.")


class AccessChangeError(MQError):
    """A change of users or policies that cannot be made."""


class MissingRightsError(ConfigError):
    """A server would answer requests that the table of rights says nothing about: it does not start."""
