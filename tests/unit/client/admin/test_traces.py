"""Traces in the order of what happened."""

from __future__ import annotations

from pyromq.client.admin.traces import in_order
from pyromq.wire.trace import ConsumeBegan, ConsumeEnded, Published


def test_traces_are_told_in_order_and_once() -> None:
    sent = Published(time_ms=1, group="p", topic="orders", message_id="ID")
    began = ConsumeBegan(time_ms=5, group="g", request_id="R", message_id="ID")
    ended = ConsumeEnded(request_id="R", message_id="ID", cost_ms=0)  # an old client: no time
    later = ConsumeBegan(time_ms=9, group="g", request_id="S", message_id="ID")
    assert in_order([later, ended, sent, began, sent]) == [sent, began, ended, later]
