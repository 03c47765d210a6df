"""A message for tests: any object with the attributes that consumers look at."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self


@dataclass(frozen=True, slots=True)
class FakeMessage:
    offset: int
    size_bytes: int = 100
    delivery_attempt: int = 0
    tags: str | None = None

    def after_failure(self) -> Self:
        return replace(self, delivery_attempt=self.delivery_attempt + 1)


def messages(*offsets: int) -> list[FakeMessage]:
    return [FakeMessage(offset) for offset in offsets]


def offsets_of(found: object) -> list[int]:
    assert isinstance(found, list | tuple)
    return [message.offset for message in found]
