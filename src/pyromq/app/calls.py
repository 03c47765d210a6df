"""Calls: what a consumer calls with a message, built once from a signature and what the app has by then.

No signature is looked at while messages come:

    (message)                    the function itself
    (body, app, producer, …)     one function, written out for this signature
    anything made per message    an exit stack around it

A body that does not decode is rejected: the message becomes a dead letter at once, with the reason.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from pyromq.app.bodies import BodyError, decoder_for
from pyromq.app.providers import Provider, Scope, enter, enter_async
from pyromq.app.signatures import MISSING, Given, Signature, Slot, item_type
from pyromq.client.consumer.rules.orderly_outcome import OrderlyResult, OrderlyStatus
from pyromq.client.consumer.rules.outcome import BatchResult, ConsumeStatus
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.errors import ConfigError, MQError, RejectedError

logger = logging.getLogger(__name__)

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

    def of(self, source: Given | Provider, *, is_coroutine: bool) -> Any:
        if isinstance(source, Provider):
            return self.provided[source.name]
        if source is Given.APP:
            return self.app
        return self.producer if is_coroutine else self.sync_producer


def decode_with(annotation: Any) -> Fill:
    """A message to its body. Raises ConfigError; what it returns raises RejectedError."""
    if annotation is bytes:
        return _body
    decode = decoder_for(annotation)

    def decoded(message: ReceivedMessage) -> Any:
        try:
            return decode(message.body, message)
        except BodyError as error:
            _reject(message, error)

    return decoded


def _body(message: ReceivedMessage) -> bytes:
    try:
        return message.body
    except MQError as error:  # it cannot be decompressed, and never will
        _reject(message, error)


def _reject(message: ReceivedMessage, error: MQError) -> NoReturn:
    raise RejectedError(f"the body of a message of {message.topic} does not decode: {error}") from error


def per_message(signature: Signature, values: Values) -> list[tuple[Provider, Signature]]:
    """Providers that a call needs anew for each message, each after those that it asks for itself."""
    found: dict[str, tuple[Provider, Signature]] = {}

    def add(signature: Signature) -> None:
        for slot in signature.slots:
            if isinstance(slot.source, Provider) and slot.source.scope is Scope.MESSAGE:
                add(own := values.signatures[slot.source.name])
                found.setdefault(slot.source.name, (slot.source, own))

    add(signature)
    return list(found.values())


def build_call(signature: Signature, values: Values) -> Call:
    """For listeners of single messages and for checks. Raises ConfigError."""
    slots, function = signature.slots, signature.function
    sources = [slot.source for slot in slots]
    if sources == [Given.MESSAGE] and not slots[0].is_keyword:
        return function
    body = _itself if signature.body is MISSING else decode_with(signature.body)
    return _call(signature, values, _Reads(_itself, body))


def build_batch_call(signature: Signature, values: Values, *, orderly: bool) -> Call:
    """For listeners of several messages: bodies that do not decode are rejected, the others handed on."""
    if signature.body is MISSING:
        return build_call(signature, values)
    decode = decode_with(item_type(signature.what, signature.body))
    inner = _call(signature, values, _Reads(lambda work: work.fresh, lambda work: work.bodies))
    if signature.is_coroutine:

        async def call_soon(batch: list[ReceivedMessage]) -> Any:
            work = DecodedBatch(batch, decode, orderly=orderly)
            try:
                return work.result(await inner(work) if work.fresh else None)
            except Exception as error:  # the listener is the application's; what is rejected stays rejected
                return work.failed(error)

        return call_soon

    def call(batch: list[ReceivedMessage]) -> Any:
        work = DecodedBatch(batch, decode, orderly=orderly)
        try:
            return work.result(inner(work) if work.fresh else None)
        except Exception as error:  # the listener is the application's; what is rejected stays rejected
            return work.failed(error)

    return call


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
        if isinstance(slot.source, Provider) or slot.source in (Given.APP, Given.PRODUCER):
            text, names[f"value{at}"] = f"value{at}", values.of(slot.source, is_coroutine=signature.is_coroutine)
        elif (read := reads.message if slot.source is Given.MESSAGE else reads.body) is _itself:
            text = "message"
        else:
            text, names[f"read{at}"] = f"read{at}(message)", read
        arguments.append(f"{slot.name}={text}" if slot.is_keyword else text)
    start, wait = ("async ", "await ") if signature.is_coroutine else ("", "")
    source = f"{start}def call(message):\n    return {wait}function({', '.join(arguments)})\n"
    exec(compile(source, f"<call of {signature.what}>", "exec"), names)
    call: Call = names["call"]
    return call


def _fill(slot: Slot, values: Values, reads: _Reads, *, is_coroutine: bool) -> Fill:
    if slot.source is Given.MESSAGE:
        return reads.message
    if slot.source is Given.BODY:
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
            if isinstance(slot.source, Provider) and slot.source.scope is Scope.MESSAGE:
                self._made.append((slot.name, slot.source.name))
            else:
                self._fills.append((slot.name, _fill(slot, values, reads, is_coroutine=is_coroutine)))

    def named(self, message: Any, made: Mapping[str, Any]) -> dict[str, Any]:
        found = {name: fill(message) for name, fill in self._fills}
        for name, source in self._made:
            found[name] = made[source]
        return found


class DecodedBatch:
    """Messages whose bodies decode, ``fresh`` with ``bodies``, and those of the whole batch that are rejected."""

    def __init__(self, batch: list[ReceivedMessage], decode: Fill, *, orderly: bool) -> None:
        self._orderly = orderly
        self._places: list[int] = []  # of the fresh ones within the batch
        self._count = len(batch)
        self.rejected: dict[int, str] = {}
        self.fresh: list[ReceivedMessage] = []
        self.bodies: list[Any] = []
        for place, message in enumerate(batch):
            try:
                self.bodies.append(decode(message))
            except RejectedError as error:
                self.rejected[place] = error.reason
            else:
                self.fresh.append(message)
                self._places.append(place)

    def result(self, result: Any) -> Any:
        """What the listener said of the fresh ones, counted in places of the whole batch."""
        if not self.rejected:
            return result
        for place, reason in self.rejected.items():
            logger.warning("body rejected: place=%d of %d reason=%s", place, self._count, reason)
        if self._orderly:
            return self._orderly_result(result)
        given = result if isinstance(result, BatchResult) else BatchResult(result or ConsumeStatus.SUCCESS)
        index = given.ack_index
        if index is not None and 0 <= index + 1 < len(self._places):
            index = self._places[index + 1] - 1
        else:
            index = None if index is None or index >= 0 else -1
        levels = {self._places[at]: level for at, level in given.delay_levels.items() if at < len(self._places)}
        return replace(given, ack_index=index, delay_levels=levels, rejected=self._all(given.rejected))

    def _orderly_result(self, result: Any) -> Any:
        given = result if isinstance(result, OrderlyResult) else OrderlyResult(result or OrderlyStatus.SUCCESS)
        return replace(given, rejected=self._all(given.rejected))

    def _all(self, rejected: Mapping[int, str]) -> dict[int, str]:
        own = {self._places[at]: reason for at, reason in rejected.items() if at < len(self._places)}
        return {**self.rejected, **own}

    def failed(self, error: Exception) -> Any:
        """Raises it again if nothing is rejected; else the fresh ones have failed, and the log tells why."""
        if not self.rejected:
            raise error
        if isinstance(error, RejectedError):
            rejected = dict.fromkeys(range(len(self.fresh)), error.reason)
            return self.result(OrderlyResult(rejected=rejected) if self._orderly else BatchResult(rejected=rejected))
        logger.warning("listener failed with a batch: count=%d", len(self.fresh), exc_info=error)
        return self.result(OrderlyStatus.SUSPEND if self._orderly else ConsumeStatus.RETRY)
