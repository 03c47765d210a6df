"""Deprecated names: they work for at least one minor version, warn once in a process, and name their replacement.

``docs/reference/versions.md`` has the policy.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class PyroMQDeprecationWarning(DeprecationWarning, FutureWarning):
    """A deprecated name was used. As a FutureWarning it is shown by default, also outside of ``__main__``."""


def deprecated(*, since: str, removed_in: str, instead: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Mark a function or method as deprecated: its first call warns, at the caller's line."""

    def mark(function: Callable[P, R]) -> Callable[P, R]:
        text = f"{function.__qualname__} is deprecated since {since} and goes in {removed_in}: use {instead}"
        is_warned = False

        @functools.wraps(function)
        def call(*arguments: P.args, **named: P.kwargs) -> R:
            nonlocal is_warned
            if not is_warned:
                is_warned = True
                warnings.warn(text, PyroMQDeprecationWarning, stacklevel=2)
            return function(*arguments, **named)

        call.__doc__ = f"Deprecated since {since}: use ``{instead}``.\n\n{function.__doc__ or ''}".rstrip()
        return call

    return mark
