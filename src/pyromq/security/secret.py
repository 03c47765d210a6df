"""Secret: a text that only ``reveal`` shows.

HMAC keys must be kept as they are, because the server computes the same signature as the client. So nothing is hashed;
instead the type keeps the text out of everything that prints, logs, encodes or pickles values.
"""

from __future__ import annotations

import hmac
from typing import Final, NoReturn

MASK: Final = "***"


class Secret:
    """Equal secrets are found equal in a time that does not depend on where they differ."""

    __slots__ = ("_text",)

    def __init__(self, text: str = "") -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself, for a signature or for the file of users; for nothing else."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return f"Secret({MASK})" if self._text else "Secret()"

    def __str__(self) -> str:
        return MASK if self._text else ""

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(_bytes(self._text), _bytes(other._text))

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled: hand it over another way")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
