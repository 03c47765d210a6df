"""Providers: what the application hands to its own functions, made once for the app or anew for each message.

    @app.provide                      def settings() -> Settings: ...            once, before anything starts
    @app.provide(scope="message")     def session(): with Session() as s: yield s    for each message, closed after it

Functions, coroutines and generators of both kinds; what stands behind ``yield`` runs at the end. A provider may ask for
others, for ``app`` and ``producer``, and for ``message`` if it is made for each.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from enum import Enum
from typing import Any, Final, get_args, get_origin, get_type_hints

from pyromq.app.signatures import Allowed, ParameterKind, Signature, check_function, name_of, read_signature
from pyromq.errors import ConfigError
from pyromq.typed.listeners import is_coroutine_function

_RESERVED: Final = frozenset((*(given.value for given in ParameterKind if given is not ParameterKind.BODY), "messages"))
_YIELDING: Final = (Iterator, Iterable, Generator, AsyncIterator, AsyncIterable, AsyncGenerator)
_TOO_PLAIN: Final = (str, bytes, int, float, bool, dict, list, tuple, set, type(None), object, Any)


class ProviderScope(Enum):
    APP = "app"
    MESSAGE = "message"


class Provider:
    """A function that gives a value; ``type`` is what it says it returns, if that tells anything."""

    def __init__(self, function: Callable[..., Any], scope: str) -> None:
        check_function("provider ", function)
        if scope not in (known := [each.value for each in ProviderScope]):
            raise ConfigError(f"provider {name_of(function)}: scope={scope!r}; there are {' and '.join(known)}")
        self.function = function
        self.scope = ProviderScope(scope)
        self.name = str(getattr(function, "__name__", ""))
        if not self.name.isidentifier() or self.name in _RESERVED:
            raise ConfigError(f"provider {name_of(function)}: the name {self.name!r} is taken; choose another")
        self.is_generator = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
        self.is_async = is_coroutine_function(function) or inspect.isasyncgenfunction(function)
        self._type: Any = None

    @property
    def type(self) -> Any:
        """Found out when it is first asked for: by then annotations can be resolved. None if it says nothing."""
        if self._type is None:
            self._type = _returned(self.function) or False
        return self._type or None

    def signature(self, providers: Mapping[str, Provider]) -> Signature:
        """Resolve what the provider itself needs. Raises ConfigError, also for an app's provider that asks for
        something of one message.
        """
        given = frozenset(
            (
                ParameterKind.APP,
                ParameterKind.PRODUCER,
                *((ParameterKind.MESSAGE,) if self.scope is ProviderScope.MESSAGE else ()),
            )
        )
        others = {name: each for name, each in providers.items() if each is not self}
        found = read_signature("provider ", self.function, Allowed(given, others))
        for slot in found.slots:
            if (
                self.scope is ProviderScope.APP
                and isinstance(slot.source, Provider)
                and slot.source.scope is ProviderScope.MESSAGE
            ):
                raise ConfigError(f"{found.what} is made once, and {slot.name!r} anew for each message")
        return found


class Override(Provider):
    """A value in place of what a provider gives, for tests."""

    def __init__(self, name: str, value: Any) -> None:
        def give() -> Any:
            return value

        give.__name__ = name
        super().__init__(give, ProviderScope.APP.value)


def in_order(providers: Mapping[str, Provider]) -> list[tuple[Provider, Signature]]:
    """Each after those that it asks for. Raises ConfigError when they ask for each other in a circle."""
    done: dict[str, tuple[Provider, Signature]] = {}

    def add(provider: Provider, way: tuple[str, ...]) -> None:
        if provider.name in way:
            circle = " → ".join((*way[way.index(provider.name) :], provider.name))
            raise ConfigError(f"providers ask for each other in a circle: {circle}")
        if provider.name not in done:
            signature = provider.signature(providers)
            for slot in signature.slots:
                if isinstance(slot.source, Provider):
                    add(slot.source, (*way, provider.name))
            done[provider.name] = (provider, signature)

    for provider in providers.values():
        add(provider, ())
    return list(done.values())


# --- making values ---------------------------------------------------------------------------------------------------


async def make_for_app(provider: Provider, named: Mapping[str, Any], stack: AsyncExitStack) -> Any:
    """Once; functions are called on a thread, and so is the end of a generator. However a run ends, it ends well."""
    if provider.is_async and provider.is_generator:
        block = asynccontextmanager(provider.function)(**named)
        value = await block.__aenter__()
        stack.push_async_callback(block.__aexit__, None, None, None)
        return value
    if provider.is_async:
        return await provider.function(**named)
    if not provider.is_generator:
        return await asyncio.to_thread(provider.function, **named)
    manager = contextmanager(provider.function)(**named)
    value = await asyncio.to_thread(manager.__enter__)
    stack.push_async_callback(asyncio.to_thread, manager.__exit__, None, None, None)
    return value


async def enter_async(provider: Provider, named: Mapping[str, Any], stack: AsyncExitStack) -> Any:
    """For a coroutine; a function is called right here, so it should not block."""
    if provider.is_async and provider.is_generator:
        return await stack.enter_async_context(asynccontextmanager(provider.function)(**named))
    if provider.is_generator:
        return stack.enter_context(contextmanager(provider.function)(**named))
    value = provider.function(**named)
    return await value if provider.is_async else value


def enter(provider: Provider, named: Mapping[str, Any], stack: ExitStack) -> Any:
    """For a function on a thread."""
    if provider.is_generator:
        return stack.enter_context(contextmanager(provider.function)(**named))
    return provider.function(**named)


def _returned(function: Any) -> Any:
    try:
        found = get_type_hints(function).get("return")
    except (NameError, TypeError):
        return None
    if get_origin(found) in (*_YIELDING, Awaitable) and get_args(found):
        found = get_args(found)[0]
    return None if found is None or found in _TOO_PLAIN or not isinstance(found, type) else found
