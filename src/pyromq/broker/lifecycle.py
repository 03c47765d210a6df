"""Lifecycle: how far a broker is between its start and its end."""

from __future__ import annotations

from enum import Enum


class Lifecycle(Enum):
    """How far a broker is. It goes through these in this order; a start that fails ends with ``STOPPED``.

    A change of role goes back to ``LISTENING`` for a moment.
    """

    NEW = "nothing is open yet"
    LISTENING = "the port is taken, but nothing is read from it: the store is not open"
    SERVING = "requests are answered"
    STOPPING = "what is under way is answered, what comes now is refused"
    STOPPED = "everything is closed"
