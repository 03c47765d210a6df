"""Calls: what a consumer calls with a message, built once from a signature and what the app has by then.

No signature is looked at while messages come:

    (message)                    the function itself
    (body, app, producer, …)     one function, written out for this signature
    anything made per message    an exit stack around it

A body that does not decode is rejected: the message becomes a dead letter at once, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from typing import Any

from pyromq.app.providers import Provider, ProviderScope, enter, enter_async
from pyromq.app.signatures import MISSING, ParameterKind, ParameterSlot, Signature, item_type
from pyromq.errors import ConfigError
from pyromq.typed.decoding import Decoder
from pyromq.typed.listeners import batch_reader, body_reader
from pyromq.typed.schemas.listening import RuleOf, decoder_by_schema

Call = Callable[[Any], Any]
Fill = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Values:
    """What does not depend on a message: the app, its producers, what app providers gave; signatures of providers."""

    app: Any
    producer: Any
    sync_producer: Any
    provided: Mapping[str, Any]
    signatures: Mapping[str, Signature]
    schema_of: RuleOf | None = None  # schemas of topics; nobody knows them where no app runs

    def of(self, source: ParameterKind | Provider, *, is_coroutine: bool) -> Any:
        if isinstance(source, Provider):
            return self.provided[source.name]
        if source is ParameterKind.APP:
            return self.app
        return self.producer if is_coroutine else self.sync_producer


def per_message(signature: Signature, values: Values) -> list[tuple[Provider, Signature]]:
    """Providers that a call needs anew for each message, each after those that it asks for itself."""
    found: dict[str, tuple[Provider, Signature]] = {}

    def add(signature: Signature) -> None:
        for slot in signature.slots:
            if isinstance(slot.source, Provider) and slot.source.scope is ProviderScope.MESSAGE:
                add(own := values.signatures[slot.source.name])
                found.setdefault(slot.source.name, (slot.source, own))

    add(signature)
    return list(found.values())


def build_call(signature: Signature, values: Values, *, is_batch: bool = False) -> Call:
    """For listeners, of one message or of several, and for checks. Raises ConfigError."""
    slots = signature.slots
    if [slot.source for slot in slots] == [ParameterKind.MESSAGE] and not slots[0].is_keyword:
        return signature.function
    if signature.body is MISSING:
        return _call(signature, values, _Reads(_itself, _itself))
    if is_batch:
        item = item_type(signature.what, signature.body)
        return _call(signature, values, _Reads(_itself, batch_reader(item, _decoder(item, values))))
    return _call(signature, values, _Reads(_itself, body_reader(signature.body, _decoder(signature.body, values))))


def _decoder(annotation: Any, values: Values) -> Decoder[Any] | None:
    return None if values.schema_of is None else decoder_by_schema(annotation, values.schema_of)


def build_hook(signature: Signature, values: Values) -> Callable[[], Any]:
    """For what is called without a message: on_start, on_stop."""
    call = _call(signature, values, _Reads(_itself, _itself))
    return lambda: call(None)


def arguments_of(signature: Signature, values: Values) -> dict[str, Any]:
    """Those of a provider that is made once."""
    return _Fills(signature, values, _Reads(_itself, _itself), is_coroutine=signature.is_coroutine).named(None, {})


# --- shapes ----------------------------------------------------------------------------------------------------------


def _itself(message: Any) -> Any:
    return message


@dataclass(frozen=True, slots=True)
class _Reads:
    """How a call gets message and body out of what it is called with."""

    message: Fill
    body: Fill


def _call(signature: Signature, values: Values, reads: _Reads) -> Call:
    """Written out as source for each signature, as dataclasses are: nothing is looped over while messages come.

    ``async def call(message): return await function(read0(message), message, value2, name=value3)``
    """
    if scoped := per_message(signature, values):
        return _scoped_call(signature, values, reads, scoped)
    names: dict[str, Any] = {"function": signature.function}
    arguments: list[str] = []
    for at, slot in enumerate(signature.slots):
        if isinstance(slot.source, Provider) or slot.source in (ParameterKind.APP, ParameterKind.PRODUCER):
            text, names[f"value{at}"] = f"value{at}", values.of(slot.source, is_coroutine=signature.is_coroutine)
        elif (read := reads.message if slot.source is ParameterKind.MESSAGE else reads.body) is _itself:
            text = "message"
        else:
            text, names[f"read{at}"] = f"read{at}(message)", read
        arguments.append(f"{slot.name}={text}" if slot.is_keyword else text)
    start, wait = ("async ", "await ") if signature.is_coroutine else ("", "")
    source = f"{start}def call(message):\n    return {wait}function({', '.join(arguments)})\n"
    exec(compile(source, f"<call of {signature.what}>", "exec"), names)
    call: Call = names["call"]
    return call


def _fill(slot: ParameterSlot, values: Values, reads: _Reads, *, is_coroutine: bool) -> Fill:
    if slot.source is ParameterKind.MESSAGE:
        return reads.message
    if slot.source is ParameterKind.BODY:
        return reads.body
    value = values.of(slot.source, is_coroutine=is_coroutine)
    return lambda _: value


def _scoped_call(signature: Signature, values: Values, reads: _Reads, scoped: list[tuple[Provider, Signature]]) -> Call:
    for provider, _ in scoped:
        if provider.is_async and not signature.is_coroutine:
            text = f"{signature.what} is a function, and its {provider.name!r} is provided by a coroutine"
            raise ConfigError(f"{text}: write the listener with async def, or the provider without")
    function, is_coroutine = signature.function, signature.is_coroutine
    own = _Fills(signature, values, reads, is_coroutine=is_coroutine)
    steps = [(provider, _Fills(each, values, reads, is_coroutine=is_coroutine)) for provider, each in scoped]
    if is_coroutine:

        async def call_soon(message: Any) -> Any:
            async with AsyncExitStack() as stack:
                made: dict[str, Any] = {}
                for provider, fills in steps:
                    made[provider.name] = await enter_async(provider, fills.named(message, made), stack)
                return await function(**own.named(message, made))

        return call_soon

    def call(message: Any) -> Any:
        with ExitStack() as stack:
            made: dict[str, Any] = {}
            for provider, fills in steps:
                made[provider.name] = enter(provider, fills.named(message, made), stack)
            return function(**own.named(message, made))

    return call


class _Fills:
    """The arguments of one function by name, some of them made for this message."""

    def __init__(self, signature: Signature, values: Values, reads: _Reads, *, is_coroutine: bool) -> None:
        self._made: list[tuple[str, str]] = []
        self._fills: list[tuple[str, Fill]] = []
        for slot in signature.slots:
            if isinstance(slot.source, Provider) and slot.source.scope is ProviderScope.MESSAGE:
                self._made.append((slot.name, slot.source.name))
            else:
                self._fills.append((slot.name, _fill(slot, values, reads, is_coroutine=is_coroutine)))

    def named(self, message: Any, made: Mapping[str, Any]) -> dict[str, Any]:
        found = {name: fill(message) for name, fill in self._fills}
        for name, source in self._made:
            found[name] = made[source]
        return found
