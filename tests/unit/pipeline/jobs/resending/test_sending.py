"""The rate-limited sender: order, and topics that are missing."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from pyromq.errors import TopicNotFoundError
from pyromq.model import property_names as names
from pyromq.operate.resend.outcomes import ItemOutcome, ItemStatus
from pyromq.operate.resend.outgoing import Outgoing
from pyromq.operate.resend.pacing import CHUNK_MAX
from pyromq.pipeline.jobs.resending.outgoing import outgoing, source_of
from pyromq.pipeline.jobs.resending.sending import PacedSender
from pyromq.testing import ManualClock
from tests.unit.pipeline.jobs.resending.rows import row


class Loop:
    """Stands for an open client."""

    is_usable = True

    def call(self, work: Any) -> Any:
        return asyncio.run(work)


def test_messages_of_a_sharding_key_are_sent_in_their_order_and_told_of_in_that_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sender, sent = PacedSender("n:1", {}), list[str]()
    monkeypatch.setattr(sender, "_connected", Loop())

    async def slower_and_slower_down(message: Outgoing) -> ItemOutcome:
        for _ in range(20 - int(message.message_id)):  # the first would be the last if they did not wait
            await asyncio.sleep(0)
        sent.append(message.message_id)
        return msgspec.structs.replace(message.source, new_message_id=message.message_id)

    monkeypatch.setattr(sender, "_send", slower_and_slower_down)
    passing = source_of(row(), ItemStatus.HELD_BACK, new_message_id="none")
    keyed = [
        outgoing(row(properties={names.SHARDING_KEY: key} if key else {}), "orders", f"{number}", [])
        for number, key in enumerate(["a", "b", "", "a", "b", ""])
    ]
    told = list(sender.send_all([passing, *keyed]))

    assert [each.new_message_id for each in told] == ["none", "0", "1", "2", "3", "4", "5"]
    assert sent.index("0") < sent.index("3") and sent.index("1") < sent.index("4")
    assert sent.index("5") < sent.index("2"), "others do not wait"


def test_a_topic_that_is_not_there_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, tried = ManualClock(), list[str]()
    sender = PacedSender("n:1", {"retryTimeout": "1ms"}, clock=clock)
    monkeypatch.setattr(sender, "_connected", Loop())

    async def refuse(message: Outgoing) -> ItemOutcome:
        tried.append(message.message_id)
        clock.advance_ms(2)  # longer than the retry window
        raise TopicNotFoundError("orders", "no topic orders")

    monkeypatch.setattr(sender, "_send", refuse)
    messages = [outgoing(row(properties={}), "orders", f"{number}", []) for number in range(CHUNK_MAX + 3)]
    told = list(sender.send_all(messages))
    assert {each.status for each in told} == {ItemStatus.FAILED} and len(told) == len(messages)
    assert "no topic orders" in told[-1].error and f"{CHUNK_MAX}" not in tried
