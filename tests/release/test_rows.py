"""The page of rows is what the structs say, and faces write rows as they are."""

from __future__ import annotations

import inspect

import msgspec
import pytest

from pyromq.console.api import groups, topics
from pyromq.operate.lists import GroupRow, TopicRow
from release import rows


def test_the_page_of_rows_is_what_the_code_says() -> None:
    assert rows.PAGE.read_text(encoding="utf-8") == rows.page(), "make it anew: python -m release.rows"


@pytest.mark.parametrize(
    ("page", "field", "row"), [(groups.GroupPage, "groups", GroupRow), (topics.TopicPage, "topics", TopicRow)]
)
def test_the_api_gives_rows_as_they_are(page: type[msgspec.Struct], field: str, row: type[msgspec.Struct]) -> None:
    fields = {each.name: each.type for each in msgspec.structs.fields(page)}
    assert fields[field] == list[row]  # type: ignore[valid-type]


@pytest.mark.parametrize("kind", [kind for kind, _ in rows.ROWS])
def test_rows_are_frozen_and_say_what_they_are(kind: type[msgspec.Struct]) -> None:
    assert kind.__struct_config__.frozen and inspect.getdoc(kind)
