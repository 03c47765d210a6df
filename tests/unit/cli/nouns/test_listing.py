"""What a list of topics or groups says about what it does not show."""

from __future__ import annotations

import pytest

from pyromq.cli.nouns.listing import report_page
from pyromq.operate.lists import ListQuestion


@pytest.mark.parametrize(
    ("question", "told"),
    [
        (ListQuestion(), "there is no group yet; --all also lists those of the system\n"),
        (ListQuestion(pattern="bil*"), "there is no such group; --all also lists those of the system\n"),
        (ListQuestion(with_system=True), "there is no group yet\n"),
    ],
)
def test_an_empty_list_says_why_it_is_empty(
    question: ListQuestion, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    report_page("group", question, 0, 0, [])
    assert capsys.readouterr().err == told
