"""Which schema may follow which."""

from __future__ import annotations

import pytest

from pyromq.typed.schemas.compatibility import Compatibility, breaks
from pyromq.typed.schemas.ddl import parse_ddl

BOTH = {Compatibility.BACKWARD, Compatibility.FORWARD}


@pytest.mark.parametrize(
    ("old", "new", "broken"),
    [
        ("a int", "a int", set()),
        ("a int", "a int, b string", set()),
        ("a int, b string", "a int", set()),
        ("a int", "a int, b string NOT NULL", {Compatibility.BACKWARD}),
        ("a int, b string NOT NULL", "a int", {Compatibility.FORWARD}),
        ("a int", "a int NOT NULL", {Compatibility.BACKWARD}),
        ("a int", "a bigint", {Compatibility.FORWARD}),
        ("a bigint", "a int", {Compatibility.BACKWARD}),
        ("a bigint", "a double", BOTH),
        ("a int", "a string", BOTH),
        ("a decimal(10,2)", "a decimal(12,4)", {Compatibility.FORWARD}),
        ("a decimal(10,2)", "a decimal(10,4)", BOTH),
        ("a array<int>", "a array<bigint>", {Compatibility.FORWARD}),
        ("a map<string,int>", "a map<string,string>", BOTH),
        ("a struct<b:int>", "a struct<b:int,c:string NOT NULL>", {Compatibility.BACKWARD}),
        ("a struct<b:int>", "a array<int>", BOTH),
    ],
)
def test_what_breaks_whom(old: str, new: str, broken: set[Compatibility]) -> None:
    fields = parse_ddl(old), parse_ddl(new)
    found = {promise for promise in BOTH if breaks(*fields, promise)}
    assert found == broken
    assert bool(breaks(*fields, Compatibility.FULL)) == bool(broken) and not breaks(*fields, Compatibility.NONE)


def test_reasons_name_the_field_and_who_is_broken() -> None:
    (reason,) = breaks(parse_ddl("a struct<b:int>"), parse_ddl("a struct<b:string>"), Compatibility.BACKWARD)
    assert reason == "field a.b is string, and int is not read as that, so the new schema does not read older messages"
