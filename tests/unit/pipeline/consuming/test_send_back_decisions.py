"""Send-back, decided without a broker: retry or dead letter, and what a dead letter tells."""

from __future__ import annotations

from pyromq.pipeline.consuming.send_back import decided, letter_properties
from pyromq.pipeline.consuming.verdicts import Dead, Retry
from pyromq.wire.properties import decode_properties
from tests.unit.pipeline.consuming.records import record


def test_rows_that_were_tried_often_enough_are_dead() -> None:
    assert decided(record(delivery_attempt=2), Retry(reason="r"), 3) == Retry(reason="r")
    assert decided(record(delivery_attempt=3), Retry(reason="r"), 3) == Dead("r", "attempts")
    assert decided(record(delivery_attempt=3), Retry(), 3) == Dead("it was tried 4 times", "attempts")


def test_a_dead_letter_tells_what_happened_and_keeps_what_it_had() -> None:
    raw = "UNIQ_KEY\x01ID\x02shop\x01north\x02DELAY\x013\x02TRAN_MSG\x01true\x02"
    text = letter_properties(record(raw_properties=raw), Dead("no\x01 \x02way" + "!" * 2_000), "query/5")
    found = decode_properties(text.encode())
    assert len(found["DLQ_ERROR"]) == 1_000 and found["DLQ_ERROR"].startswith("no   way!")
    assert (found["DLQ_STAGE"], found["DLQ_BATCH"], found["DLQ_SOURCE"]) == ("handler", "query/5", "orders/a/1/7")
    assert (found["RETRY_TOPIC"], found["ORIGIN_MESSAGE_ID"], found["shop"]) == ("orders", "ID", "north")
    assert "DELAY" not in found and "TRAN_MSG" not in found
    second = letter_properties(record(stored_topic="%RETRY%g", raw_properties=text), Dead(""), "query/6")
    assert decode_properties(second.encode())["RETRY_TOPIC"] == "orders", "the first topic stays"
