"""Roles: who reads, and who may also change things."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ConsoleRole(StrEnum):
    """An operator may do what a reader may."""

    READER = "read-only"
    OPERATOR = "operator"

    def may(self, needed: ConsoleRole) -> bool:
        return self is ConsoleRole.OPERATOR or needed is ConsoleRole.READER


@dataclass(frozen=True, slots=True)
class ConsoleIdentity:
    """Somebody who was verified: an account in a session, or a token (``token`` is its name then)."""

    name: str
    role: ConsoleRole
    token: str = ""

    @property
    def is_operator(self) -> bool:
        return self.role is ConsoleRole.OPERATOR
