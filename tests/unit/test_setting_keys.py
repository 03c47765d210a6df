from __future__ import annotations

import pytest

from pyromq.errors import ConfigError
from pyromq.setting_keys import KeyTable, Refused, SettingKey, parse_int, parse_lines, parse_size, suggestion


def test_lines_of_tools_are_pairs() -> None:
    assert parse_lines(b"# no\n! no\n\n a = b=c \nd=\n") == [("a", "b=c"), ("d", "")]


@pytest.mark.parametrize("text", [b"a", b"\xff=1", b"a=" + b"x" * 70_000])
def test_what_is_no_list_of_settings_is_refused(text: bytes) -> None:
    with pytest.raises(ConfigError):
        parse_lines(text)


@pytest.mark.parametrize("text", ["", "-1", "1e3", "٣", "1 ", "9" * 10])
def test_numbers_are_digits_and_not_too_many(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_int(text)
    assert parse_size("1073741824") == 1 << 30


def test_a_slip_of_the_pen_is_told_the_nearest_name() -> None:
    assert suggestion("brokerNmae", ["brokerName", "listenPort"]) == "; did you mean brokerName?"
    assert suggestion("flsh", {"flush": "store.flush"}) == "; did you mean store.flush?"
    assert suggestion("xyzzy", ["brokerName", "listenPort"]) == ""


def test_a_refused_key_may_say_what_is_so_anyway() -> None:
    table = KeyTable({"a": SettingKey("a", str)}, {"b": Refused(("false", ""), "there is none")}, frozenset())
    assert table.refusal_of("a", "x") == table.refusal_of("b", "FALSE") == table.refusal_of("b", "") == ""
    assert table.refusal_of("b", "true") == "there is none; only false or nothing will do"
