"""What keys change in ``pyromq top``. A state is replaced by the next one; nothing here touches a terminal."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

HELP: Final = "q quit   s sort   / filter   p pause   a all   r refresh"
_FILTER_MAX: Final = 128
_ORDERS: Final = ("lag", "rate", "name")
_ESCAPE, _ENTER, _BACKSPACE = "\x1b", ("\r", "\n"), ("\x7f", "\b")


@dataclass(frozen=True, slots=True)
class TopState:
    """``is_typing``: keys go into the filter."""

    sort: str = "lag"
    pattern: str = ""
    with_system: bool = False
    is_paused: bool = False
    is_typing: bool = False
    is_over: bool = False

    def pressed(self, key: str) -> TopState:
        """The state after a key; one that means nothing changes nothing."""
        if key in ("\x03", "\x04"):  # Ctrl-C and Ctrl-D, as bytes where no signal is made of them
            return replace(self, is_over=True)
        return self._typed(key) if self.is_typing else self._commanded(key)

    def _typed(self, key: str) -> TopState:
        if key in _ENTER:
            return replace(self, is_typing=False)
        if key == _ESCAPE:
            return replace(self, is_typing=False, pattern="")
        if key in _BACKSPACE:
            return replace(self, pattern=self.pattern[:-1])
        if len(key) == 1 and key.isprintable() and len(self.pattern) < _FILTER_MAX:
            return replace(self, pattern=self.pattern + key)
        return self

    def _commanded(self, key: str) -> TopState:
        match key:
            case "q" | "Q":
                return replace(self, is_over=True)
            case "s":
                return replace(self, sort=_ORDERS[(_ORDERS.index(self.sort) + 1) % len(_ORDERS)])
            case "/":
                return replace(self, is_typing=True, pattern="")
            case "p" | " ":
                return replace(self, is_paused=not self.is_paused)
            case "a":
                return replace(self, with_system=not self.with_system)
            case "\x1b":
                return replace(self, pattern="")
        return self

    def asks_anew(self, before: TopState) -> bool:
        """Whether what was sampled for the state before does not answer this one."""
        wanted, had = (self.sort, self.pattern, self.with_system), (before.sort, before.pattern, before.with_system)
        return wanted != had and not self.is_typing
