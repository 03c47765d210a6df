"""Traces in the order of what happened."""

from __future__ import annotations

from pyromq.operate.explaining.traces import in_order
from pyromq.wire.trace import ConsumeBegan, ConsumeEnded, Published, sent_from


def test_traces_are_told_in_order_and_once() -> None:
    sent = Published(time_ms=1, group="p", topic="orders", message_id="ID")
    began = ConsumeBegan(time_ms=5, group="g", request_id="R", message_id="ID")
    ended = ConsumeEnded(request_id="R", message_id="ID", cost_ms=0)  # an old client: no time
    later = ConsumeBegan(time_ms=9, group="g", request_id="S", message_id="ID")
    assert in_order([later, ended, sent, began, sent]) == [sent, began, ended, later]


def test_a_record_is_of_the_client_that_sent_it_unless_it_says_another() -> None:
    began = ConsumeBegan(time_ms=5, group="g", request_id="R", message_id="ID")
    told = sent_from(began, "10.0.0.1:5")
    assert isinstance(told, ConsumeBegan) and told.client_host == "10.0.0.1:5"
    assert sent_from(told, "10.0.0.2:6") == told
    ended = sent_from(ConsumeEnded(request_id="R", message_id="ID"), "10.0.0.1:5")
    assert isinstance(ended, ConsumeEnded) and ended.client_host == "10.0.0.1:5"
