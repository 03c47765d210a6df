"""Roles: who reads, and who may also change things."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """An operator may do what a reader may."""

    READER = "read-only"
    OPERATOR = "operator"

    def may(self, needed: Role) -> bool:
        return self is Role.OPERATOR or needed is Role.READER


@dataclass(frozen=True, slots=True)
class Identity:
    """Somebody who was verified: an account in a session, or a token (``token`` is its name then)."""

    name: str
    role: Role
    token: str = ""

    @property
    def is_operator(self) -> bool:
        return self.role is Role.OPERATOR
