"""Claims that are held in this process, prolonged by a thread while there are any.

A forked child holds none: to prolong those of its parent would keep them alive when the parent has died.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple
from weakref import WeakSet

logger = logging.getLogger(__name__)

_ROUNDS: Final = 3  # per lease


class Claim(NamedTuple):
    """The right to consume a message; ``Marks.finish`` or ``Marks.release`` it."""

    hash: str
    token: str
    key: str


class Leases:
    """``renew(claims)`` is called three times per lease; what it raises is logged, the next round may do better."""

    def __init__(self, renew: Callable[[list[Claim]], None], lease_ms: int) -> None:
        self._renew = renew
        self._round_s = lease_ms / 1000 / _ROUNDS
        self.begin_anew()
        _of_this_process.add(self)

    def begin_anew(self) -> None:
        """Without claims, and without a lock that a thread may have held when the process forked."""
        self._claims: set[Claim] = set()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def hold(self, claim: Claim) -> None:
        with self._lock:
            self._claims.add(claim)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="pyromq-leases", daemon=True)
                self._thread.start()

    def let_go(self, claim: Claim) -> None:
        with self._lock:
            self._claims.discard(claim)

    def renew_now(self) -> None:
        if claims := self._held():
            self._renew(claims)

    def _held(self) -> list[Claim]:
        with self._lock:
            return list(self._claims)

    def _run(self) -> None:
        while self._goes_on():
            try:
                self.renew_now()
            except Exception:  # any driver's error: without this thread the leases of all would run out
                logger.exception("leases not renewed: claims=%d", len(self._held()))

    def _goes_on(self) -> bool:
        """After a round; the thread ends when a whole lease went by without claims."""
        for _ in range(_ROUNDS):
            time.sleep(self._round_s)
            with self._lock:
                if self._claims:
                    return True
        with self._lock:
            if not self._claims:
                self._thread = None
        return self._thread is not None


_of_this_process: WeakSet[Leases] = WeakSet()


def _begin_anew() -> None:
    for leases in _of_this_process:
        leases.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
