"""The table of requests, and what the handlers say about themselves."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any, get_type_hints

import pytest

from pyromq.broker.dispatching.plan import ANSWERED_AFTER_REGISTRATION
from pyromq.broker.request_table import Handlers

HINTS = get_type_hints(Handlers)
NAMES = [each.name for each in fields(Handlers)]


class AnyHandler:
    """Has every method; each says whose it is."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, method: str) -> tuple[str, str]:
        return self._name, method


def handlers() -> Handlers:
    stand_ins: dict[str, Any] = {name: AnyHandler(name) for name in NAMES}
    return Handlers(**stand_ins)


def table() -> dict[int, Any]:
    return {**handlers().immediate(), **handlers().deferred()}


def test_no_request_is_answered_in_two_ways() -> None:
    assert not handlers().immediate().keys() & handlers().deferred().keys()


def test_responses_that_wait_for_name_servers_are_returned_by_their_handlers() -> None:
    assert handlers().immediate().keys() >= ANSWERED_AFTER_REGISTRATION


@pytest.mark.parametrize("name", NAMES)
def test_a_handler_names_the_requests_that_it_answers(name: str) -> None:
    said = re.search(r"[Rr]equests? (\d.*?)\.", re.sub(r"\([A-Z_0-9]+\)", "", HINTS[name].__doc__ or ""), re.DOTALL)
    assert said is not None
    answered = sorted(int(code) for code, (owner, _) in table().items() if owner == name)
    assert sorted(map(int, re.findall(r"\d+", said[1]))) == answered


def test_every_function_in_the_table_exists() -> None:
    for owner, method in table().values():
        assert callable(getattr(HINTS[owner], method))
