"""The two faces of Admin: facets by composition, and the sync one method by method that of asyncio."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import pyromq
from pyromq import aio

METHODS_MAX = 12  # of a facet
MORE = {"messages": 2}  # two of them read queues by offset

ADMIN = aio.Admin("127.0.0.1:1")
FACETS = {name: value for name, value in vars(ADMIN).items() if type(value).__name__.endswith("Facet")}
ONLY_ASYNC = {"measuring"}  # what exporters ask of single brokers


def methods(kind: type) -> dict[str, Any]:
    found = inspect.getmembers(kind, inspect.isroutine)
    return {name: value for name, value in found if not name.startswith("_")}


def test_admin_is_made_of_facets() -> None:
    assert len(aio.Admin.__mro__) <= 3 and len(pyromq.Admin.__mro__) <= 3
    assert len(FACETS) >= 15 and all(len(type(each).__mro__) <= 3 for each in FACETS.values())
    assert set(methods(aio.Admin)) == {"open", "close"}


@pytest.mark.parametrize("name", sorted(FACETS))
def test_a_facet_is_small_and_every_method_says_what_it_does(name: str) -> None:
    found = methods(type(FACETS[name]))
    assert 0 < len(found) <= METHODS_MAX + MORE.get(name, 0)
    assert [method for method, value in found.items() if not inspect.getdoc(value)] == []


@pytest.mark.parametrize("name", sorted(set(FACETS) - ONLY_ASYNC))
def test_the_sync_facet_has_the_methods_of_the_async_one(name: str) -> None:
    awaited = {
        method: value for method, value in methods(type(FACETS[name])).items() if inspect.iscoroutinefunction(value)
    }
    blocking = methods(getattr(pyromq.Admin, name))
    assert set(blocking) == set(awaited)
    for method, value in awaited.items():
        assert inspect.signature(blocking[method]) == inspect.signature(value), method
        assert blocking[method].__wrapped__ is value and not inspect.iscoroutinefunction(blocking[method]), method


def test_a_sync_facet_is_made_once_and_refuses_to_work_outside_of_the_block() -> None:
    admin = pyromq.Admin("127.0.0.1:1")
    assert admin.topics is admin.topics
    with pytest.raises(pyromq.MQError, match="is not open"):
        admin.topics.names()
