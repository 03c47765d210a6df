"""Keys and tags that choose dead letters: one text is one of them."""

from __future__ import annotations

import pytest

from pyromq.client.admin.dead_letters import _several


@pytest.mark.parametrize(
    ("given", "meant"), [("order-7", ("order-7",)), (["a", "b"], ["a", "b"]), ((), ()), ("", "")], ids=repr
)
def test_a_text_is_not_taken_for_its_letters(given: list[str] | str, meant: object) -> None:
    assert _several(given) == meant
