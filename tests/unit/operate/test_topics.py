"""Topics that an operator makes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast, get_type_hints

import pytest

from pyromq.model.topic import Perm
from pyromq.operate.topics import TopicFacet, TopicOptions, _NewTopic
from pyromq.wire.headers.admin import CreateTopicHeader


class Recording:
    """Stands for AdminRequests: notes the header instead of asking brokers."""

    def __init__(self) -> None:
        self.client = SimpleNamespace(wire_name=lambda name: name)
        self.directory = self.brokers = self
        self.headers: list[CreateTopicHeader] = []
        self.targets: list[tuple[str, str]] = []
        self.topics = TopicFacet(cast(Any, self), cast(Any, None), cast(Any, None))

    async def masters(self, cluster: str = "", broker: str = "") -> list[str]:
        self.targets.append((cluster, broker))
        return ["a:1"]

    async def create_topic(self, address: str, header: CreateTopicHeader) -> None:
        self.headers.append(header)


async def test_a_topic_has_eight_queues_for_reading_and_writing_unless_told_otherwise() -> None:
    admin = Recording()
    await admin.topics.create("orders")
    await admin.topics.create("orders", queues=3, write_queues=1, perm=Perm.READ, ordered=True, broker="a")
    await admin.topics.create("orders", attributes={"message.type": "FIFO"}, cluster="C")
    found = [(each.read_queue_nums, each.write_queue_nums, each.perm, each.order) for each in admin.headers]
    assert found == [(8, 8, 6, False), (3, 1, 4, True), (8, 8, 6, False)]
    assert [each.attributes for each in admin.headers] == [None, None, "+message.type=FIFO"]
    assert admin.targets == [("", ""), ("", "a"), ("C", "")]


async def test_a_keyword_that_is_none_is_refused_before_anything_is_asked() -> None:
    admin = Recording()
    with pytest.raises(TypeError, match="queuez"):
        await admin.topics.create("orders", queuez=3)  # type: ignore[call-arg]
    assert admin.headers == []


def test_every_keyword_has_a_default() -> None:
    assert set(get_type_hints(TopicOptions)) == set(get_type_hints(_NewTopic))
