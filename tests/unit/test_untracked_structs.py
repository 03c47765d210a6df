"""Structs that the garbage collector does not see (``gc=False``) hold nothing that could hold them in turn.

What such a struct holds can never be freed once it leads back to the struct: the collector takes it for a root. Commits
that waited in a stopped broker, and requests that an abandoned client still waited for, kept their whole world.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import pkgutil
import typing
import weakref
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from enum import Enum
from types import NoneType

import msgspec
import pytest

import pyromq
from pyromq.broker.commit.commit import Commit
from pyromq.broker.commit.touched import Touched
from pyromq.client.consumer.popping.leases import LeasedMessage, MessageLease, Until
from pyromq.net.pending_requests import PendingRequest

LEAVES = (int, float, bool, str, bytes, NoneType, Enum, msgspec.Raw, datetime, timedelta)
FREE = {  # fields of a general type, and what they are in truth
    ("Received", "header"): "a Header, or the bytes of one",
    ("Received", "raw_language"): "a text or a number",
    ("_ReceivedJson", "raw_language"): "a text or a number",
    ("_JsonHeader", "extFields"): "a Header of the same kind, or texts",
}


def _untracked() -> Iterator[type[msgspec.Struct]]:
    for part in ("broker", "client", "model", "net", "store", "wire"):
        for found in pkgutil.walk_packages([f"{pyromq.__path__[0]}/{part}"], f"pyromq.{part}."):
            if found.name.rpartition(".")[2] != "__main__":
                importlib.import_module(found.name)
    waiting = [msgspec.Struct]
    while waiting:
        for kind in waiting.pop().__subclasses__():
            waiting.append(kind)
            if not kind.__struct_config__.gc and kind.__module__.startswith("pyromq."):
                yield kind


def _leads_back(kind: object) -> bool:
    """Whether a value of that type may hold objects that change."""
    arguments = typing.get_args(kind)
    if arguments:
        return any(_leads_back(each) for each in arguments if each is not Ellipsis)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind.__struct_config__.gc
    if isinstance(kind, typing.TypeVar):
        return True
    kind = getattr(kind, "__supertype__", kind)
    return not (isinstance(kind, type) and issubclass(kind, LEAVES))


def test_what_the_collector_does_not_see_holds_plain_values() -> None:
    wrong = []
    for kind in set(_untracked()):
        try:
            hints = typing.get_type_hints(kind)
        except NameError:  # made of fields at run time
            hints = {field.name: field.type for field in msgspec.structs.fields(kind)}
        plain = kind.__name__.partition("[")[0]
        wrong += [
            f"{kind.__module__}.{kind.__qualname__}.{name}: {hints[name]}"
            for name in kind.__struct_fields__
            if (plain, name) not in FREE and _leads_back(hints[name])
        ]
    assert not sorted(wrong)


class _Owner:
    """Holds what holds it."""

    held: object = None


def _commit(owner: _Owner) -> object:
    return Commit(1, [(typing.cast("typing.Any", owner), typing.cast("typing.Any", None), b"")], 1, [], Touched())


def _request(owner: _Owner) -> object:
    loop = asyncio.new_event_loop()
    response = loop.create_future()
    response.add_done_callback(lambda _: print(owner))
    loop.close()
    return PendingRequest(response, 1, 1, 1)


def _leased(owner: _Owner) -> object:
    lease = MessageLease("", Until(0, 0), 1, typing.cast("typing.Any", owner))
    return LeasedMessage(b"", "a", 0, 0, 0, 0, lease=lease)


@pytest.mark.parametrize("hold", [_commit, _request, _leased])
def test_what_holds_its_owner_is_freed_with_it(hold: Callable[[_Owner], object]) -> None:
    owner = _Owner()
    owner.held = hold(owner)
    lives = weakref.ref(owner)
    del owner
    gc.collect()
    assert lives() is None
