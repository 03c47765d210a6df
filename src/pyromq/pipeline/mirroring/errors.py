"""Errors of mirrors; their texts say what to do."""

from __future__ import annotations

from pyromq.errors import ConfigError, MQError


class MirrorConflictError(MQError):
    """Two mirrors copy the same queue to the same topic: each message would be there twice."""


class TargetTopicError(ConfigError):
    """A topic that cannot take the copies as it is."""
