"""How long to wait before trying again, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final


@dataclass(frozen=True, slots=True)
class Backoff:
    """Doubles from ``first_ms`` to ``ceiling_ms``; chance takes away up to half, lest clients retry in step."""

    first_ms: int = 100
    ceiling_ms: int = 10_000

    def delay_ms(self, attempt: int, rng: Random) -> int:
        """``attempt`` counts the failures before this one."""
        full = min(self.ceiling_ms, self.first_ms << min(attempt, 30))
        return rng.randint(full // 2, full)


DEFAULT_BACKOFF: Final = Backoff()
