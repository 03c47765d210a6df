"""Keys of ``pyromq top``."""

from __future__ import annotations

import pytest

from pyromq.cli.top.state import TopState


def after(keys: str, state: TopState | None = None) -> TopState:
    state = state or TopState()
    for key in keys:
        state = state.pressed(key)
    return state


def test_keys_sort_pause_and_end() -> None:
    assert [after("s" * count).sort for count in range(4)] == ["lag", "rate", "name", "lag"]
    assert after("p").is_paused and after(" ").is_paused and not after("pp").is_paused
    assert after("a").with_system and not after("aa").with_system
    assert after("q").is_over and after("\x03").is_over and after("\x04").is_over


def test_a_filter_is_typed_changed_kept_and_cleared() -> None:
    typing = after("/orq")
    assert (typing.pattern, typing.is_typing, typing.is_over) == ("orq", True, False), "q is a letter there"
    assert after("\x7f\x7f", typing).pattern == "o"
    kept = after("\r", typing)
    assert (kept.pattern, kept.is_typing) == ("orq", False)
    assert after("\x1b", kept).pattern == "" and after("\x1b", typing) == TopState()
    assert after("/é漢", TopState()).pattern == "é漢"
    assert len(after("/" + "x" * 500).pattern) == 128
    assert after("/\x7f").pattern == ""


@pytest.mark.parametrize("key", ["x", "\x1b[A", "\x00", "é", "", "\n", "Z"])
def test_a_key_that_means_nothing_changes_nothing(key: str) -> None:
    assert TopState().pressed(key) == TopState()
    typing = after("/a")
    if key not in ("\n", "x", "é", "Z"):
        assert typing.pressed(key) == typing


def test_ctrl_c_ends_it_also_while_a_filter_is_typed() -> None:
    assert after("/ab\x03").is_over


def test_what_changes_the_list_asks_anew_and_what_does_not_does_not() -> None:
    start = TopState()
    assert after("s").asks_anew(start) and after("a").asks_anew(start) and after("/x\r").asks_anew(start)
    assert not after("p").asks_anew(start) and not after("/x").asks_anew(start), "not while it is typed"
