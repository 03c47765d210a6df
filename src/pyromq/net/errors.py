"""Errors of connections beside those in ``pyromq.errors``."""

from __future__ import annotations

from pyromq.errors import RemoteProtocolError


class PreambleError(RemoteProtocolError):
    """The first bytes of a connection announce the PROXY protocol and then break it."""
