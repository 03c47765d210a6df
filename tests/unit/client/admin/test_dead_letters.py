"""Dead letters that are sent again."""

from __future__ import annotations

from pyromq.client.admin.dead_letters import redriven_id


def test_a_letter_becomes_the_same_message_every_time() -> None:
    assert redriven_id("0A00") == redriven_id("0A00") != redriven_id("0A01")
    assert len(redriven_id("0A00")) == 32 and redriven_id("0A00").isupper()
