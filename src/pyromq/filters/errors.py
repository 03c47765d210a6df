"""What is wrong with an expression."""

from __future__ import annotations

from pyromq.errors import LocalProtocolError


class InvalidFilterError(LocalProtocolError):
    """An SQL92 expression that cannot be parsed, compares what cannot be compared, or is beyond a limit."""
