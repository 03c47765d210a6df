"""Middleware: the application's own code around every call of a listener, the first one outermost.

    @app.middleware                                           # a generator: around functions and coroutines alike
    def timed(message):
        began = perf_counter()
        yield
        log(message.topic, perf_counter() - began)

    @app.middleware                                           # around coroutines; a function with the same parameters
    async def in_transaction(message, call_next):             # is for listeners that are functions
        async with database.begin():
            return await call_next(message)

``message`` is a list for listeners of batches. What the listener raises is raised at ``yield`` and by ``call_next``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from pyromq.app.signatures import check_function, name_of
from pyromq.errors import ConfigError
from pyromq.typed.listeners import is_coroutine_function

Call = Callable[[Any], Any]


class Middleware:
    """``groups`` are those whose listeners it is around; empty for all. Raises ConfigError."""

    def __init__(self, function: Callable[..., Any], groups: Collection[str]) -> None:
        check_function("middleware ", function)
        self.function = function
        self.groups = frozenset([groups] if isinstance(groups, str) else groups)
        self.is_async = is_coroutine_function(function) or inspect.isasyncgenfunction(function)
        self.is_generator = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
        count, names = (1, "(message)") if self.is_generator else (2, "(message, call_next)")
        try:
            inspect.signature(function).bind(*[None] * count)
        except TypeError as error:
            text = f"middleware {name_of(function)} is called with {names}"
            raise ConfigError(f"{text}; a generator with (message): {error}") from error

    def around(self, call: Call, group: str, listener: str, *, is_coroutine: bool) -> Call:
        """Wrap a call in this middleware. Raises ConfigError when a coroutine would stand around a plain function, or
        the other way round.
        """
        if self.groups and group not in self.groups:
            return call
        if is_coroutine:
            if self.is_generator:
                return _generator_around_coroutine(self.function, call, is_async=self.is_async)
            self._require(self.is_async, listener, "a coroutine", "async def")
            return _coroutine_around(self.function, call)
        self._require(not self.is_async, listener, "a function", "def")
        if self.is_generator:
            return _generator_around(self.function, call)
        return _function_around(self.function, call)

    def _require(self, fits: bool, listener: str, kind: str, wanted: str) -> None:
        if not fits:
            text = f"middleware {name_of(self.function)} cannot be around {listener}, which is {kind}: write it with"
            advice = "a generator (def, with yield) does for both, groups=[…] leaves other listeners out"
            raise ConfigError(f"{text} {wanted}; {advice}")


def _coroutine_around(function: Callable[..., Any], call: Call) -> Call:
    async def handle(message: Any) -> Any:
        return await function(message, call)

    return handle


def _function_around(function: Callable[..., Any], call: Call) -> Call:
    def handle(message: Any) -> Any:
        return function(message, call)

    return handle


def _generator_around(function: Callable[..., Any], call: Call) -> Call:
    manager = contextmanager(function)

    def handle(message: Any) -> Any:
        result = None
        with manager(message):
            result = call(message)
        return result

    return handle


def _generator_around_coroutine(function: Callable[..., Any], call: Call, *, is_async: bool) -> Call:
    if is_async:
        async_manager = asynccontextmanager(function)

        async def handle_async(message: Any) -> Any:
            result = None
            async with async_manager(message):
                result = await call(message)
            return result

        return handle_async
    manager = contextmanager(function)

    async def handle(message: Any) -> Any:
        result = None
        with manager(message):
            result = await call(message)
        return result

    return handle
