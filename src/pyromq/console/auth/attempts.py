"""A bound on guessing: after a few wrong passwords the next try has to wait, each time twice as long. Pure.

Counted by address and by account: one guesser cannot try many accounts, many guessers cannot try one. A right password
during a wait is refused as well, or waiting would tell nothing to who guesses. An account under attack stays usable:
the wait of an account ends after ``ACCOUNT_WAIT_MS_MAX``, and sessions that exist go on.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from pyromq.clock import Clock

FREE_ATTEMPTS: Final = 5
FIRST_WAIT_MS: Final = 1_000
ADDRESS_WAIT_MS_MAX: Final = 15 * 60_000
ACCOUNT_WAIT_MS_MAX: Final = 30_000
FORGET_MS: Final = 60 * 60_000
_ENTRIES_MAX: Final = 10_000


@dataclass(slots=True)
class _Failures:
    count: int = 0
    last_ms: int = 0


class SignInAttempts:
    """Failed sign-ins of the last hour, the oldest forgotten first when there are too many."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: OrderedDict[tuple[str, str], _Failures] = OrderedDict()

    def wait_ms(self, address: str, account: str) -> int:
        """How long the next try has to wait; 0: it may come."""
        return max(
            self._wait_ms(("address", address), ADDRESS_WAIT_MS_MAX),
            self._wait_ms(("account", account), ACCOUNT_WAIT_MS_MAX),
        )

    def failed(self, address: str, account: str) -> None:
        """Counted before the password is checked, and taken back by ``succeeded``: tries at the same time count."""
        for key in (("address", address), ("account", account)):
            found = self._failures.pop(key, None) or _Failures()
            if self._clock.monotonic_ms() - found.last_ms > FORGET_MS:
                found.count = 0
            found.count += 1
            found.last_ms = self._clock.monotonic_ms()
            self._failures[key] = found
        while len(self._failures) > _ENTRIES_MAX:
            self._failures.popitem(last=False)

    def succeeded(self, address: str, account: str) -> None:
        for key in (("address", address), ("account", account)):
            self._failures.pop(key, None)

    def _wait_ms(self, key: tuple[str, str], most_ms: int) -> int:
        found = self._failures.get(key)
        if found is None or found.count < FREE_ATTEMPTS:
            return 0
        wait_ms = min(most_ms, FIRST_WAIT_MS << min(found.count - FREE_ATTEMPTS, 20))
        return max(0, found.last_ms + wait_ms - self._clock.monotonic_ms())
