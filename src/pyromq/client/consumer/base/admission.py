"""Admission: whether access control has let a consumer in.

A consumer that was refused with NO_PERMISSION (16) before any broker took its heartbeat is refused for good: ``run``
and ``poll`` raise what the server said. One that was let in once waits instead, whatever servers say later: rights
change, and a broker that has just become the master may not know its users yet.
"""

from __future__ import annotations

from collections.abc import Callable

from pyromq.errors import NoPermissionError


class Admission:
    """``refusal`` is the error of a consumer that nobody has let in; ``on_refusal`` is called when there is a new one.

    Who goes on trying may be admitted later, which takes the refusal back.
    """

    def __init__(self, on_refusal: Callable[[NoPermissionError], None]) -> None:
        self._on_refusal = on_refusal
        self._is_admitted = False
        self.refusal: NoPermissionError | None = None

    def admit(self) -> None:
        self._is_admitted = True
        self.refusal = None

    def refuse(self, error: NoPermissionError) -> bool:
        """Whether that is final, because nobody has let the consumer in before."""
        if self._is_admitted:
            return False
        is_new, self.refusal = self.refusal is None, self.refusal or error
        if is_new:
            self._on_refusal(error)
        return True
