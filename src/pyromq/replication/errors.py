"""Why a replica does not follow a master."""

from __future__ import annotations

from pyromq.errors import MQError


class ReplicationRefusedError(MQError):
    """The replica must not follow this master, or cannot: a person has to look, and nothing was changed."""


class DivergedError(ReplicationRefusedError):
    """Replica and master have different logs: one of them has messages that the other never had."""


class TooFarBehindError(ReplicationRefusedError):
    """The master has deleted what the replica needs next: the replica has to begin anew, in an empty folder."""
