"""The page of rows is what the structs say, and faces write rows as they are."""

from __future__ import annotations

import inspect
from typing import get_args, get_type_hints

import msgspec
import pytest

from pyromq.console.api import groups, messages, topics
from pyromq.console.views.cluster import ClusterView
from pyromq.console.views.delays import DelaysView
from pyromq.console.views.replication import ReplicationView
from pyromq.console.views.transactions import HalfMessages
from pyromq.operate.brokers import BrokerRow
from pyromq.operate.delays import DelayedMessage
from pyromq.operate.lists import GroupRow, TopicRow
from pyromq.operate.reading.message_rows import MessageRow, MessageSummary
from pyromq.operate.replication import BrokerCopy
from pyromq.operate.transactions import OpenTransaction
from release import rows


def test_the_page_of_rows_is_what_the_code_says() -> None:
    assert rows.PAGE.read_text(encoding="utf-8") == rows.page(), "make it anew: python -m release.rows"


@pytest.mark.parametrize(
    ("page", "field", "row"),
    [
        (groups.GroupPage, "groups", GroupRow),
        (topics.TopicPage, "topics", TopicRow),
        (ClusterView, "brokers", BrokerRow),
        (ReplicationView, "copies", BrokerCopy),
        (DelaysView, "messages", DelayedMessage),
        (HalfMessages, "messages", OpenTransaction),
        (messages.Found, "messages", MessageSummary),
        (messages.Lines, "lines", MessageRow),
    ],
)
def test_the_api_gives_rows_as_they_are(page: type[msgspec.Struct], field: str, row: type[msgspec.Struct]) -> None:
    """Or with something more: a forecast of a broker's disk, how a body begins."""
    (kind, *_) = get_args(get_type_hints(page)[field])
    assert issubclass(kind, row) and row in [known for known, _ in rows.ROWS]
    names = {each.encode_name for each in msgspec.structs.fields(kind)}
    assert {each.name for each in msgspec.structs.fields(row)} <= names


@pytest.mark.parametrize("kind", [kind for kind, _ in rows.ROWS])
def test_rows_are_frozen_and_say_what_they_are(kind: type[msgspec.Struct]) -> None:
    assert kind.__struct_config__.frozen and inspect.getdoc(kind)
