"""Rows on their way back, with a broker that answers as it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyromq.client.consumer.rules.failure_capture import MASK_FAILED
from pyromq.client.consumer.rules.send_back_plan import Fate
from pyromq.errors import BrokerError, MQError, TransportError
from pyromq.model.failure import FailureStory
from pyromq.pipeline.consuming.rows import Record
from pyromq.pipeline.consuming.send_back import RowSendBack, Telling, decided, fate_of
from pyromq.pipeline.consuming.verdicts import Dead, Retry, failed
from pyromq.pipeline.core.errors import SourceUnreachableError
from pyromq.pipeline.core.options import SourceOptions
from pyromq.testing import ManualClock
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.properties import decode_properties
from pyromq.wire.property_text import split_items, value_of
from tests.unit.pipeline.consuming.records import record

SEND_BACK, SEND = RequestCode.CONSUMER_SEND_MSG_BACK, RequestCode.SEND_MESSAGE_V2


class Broker:
    """A client that knows one broker, which refuses send-backs, or does not answer; Apache's takes no stories."""

    def __init__(
        self, refuses: int = 0, fails: MQError | None = None, *, is_apache: bool = False, refuses_copies: int = 0
    ) -> None:
        self._is_apache = is_apache
        self._refuses_copies = refuses_copies
        self._refuses = refuses
        self._fails = fails
        self.got: list[tuple[int, Any]] = []
        self.clock = ManualClock()
        self.client = self
        self.brokers = self.routes = self
        self.signer = SimpleNamespace(signed=lambda header, body=b"": header)

    def call(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run(work)

    def wire_name(self, name: str) -> str:
        return name

    async def get(self, topic: str, *, timeout_ms: int) -> None: ...

    def address(self, broker: str, broker_id: int = 0) -> str:
        return "b:1"

    def link(self, address: str) -> Broker:
        return self

    async def takes_stories(self, link: Broker) -> bool:
        return not self._is_apache

    master_link = link

    async def request(self, code: int, header: Any, body: bytes = b"", *, timeout_ms: int) -> Any:
        self.got.append((code, header))
        if code == SEND_BACK and self._fails is not None:
            self.clock.advance_ms(1_000)
            raise self._fails
        refused = self._refuses if code == SEND_BACK else self._refuses_copies
        return SimpleNamespace(code=refused or ResponseCode.SUCCESS, remark="no such message")


def rows_to(broker: Broker) -> RowSendBack:
    return RowSendBack(cast(Any, broker), SourceOptions(nameserver="n:1", retry_ms=500), "g", 16, "query/0")


def test_a_row_that_its_broker_takes_back_needs_no_copy() -> None:
    broker = Broker()
    rows = rows_to(broker)
    rows.send_back([(record(), Retry(delay_level=2))])
    [(code, header)] = broker.got
    assert (code, header.position, header.delay_level, rows.retried) == (SEND_BACK, 99, 2, 1)


def test_a_row_that_its_broker_refuses_goes_as_a_copy() -> None:
    broker = Broker(refuses=ResponseCode.SYSTEM_ERROR)
    rows = rows_to(broker)
    rows.send_back([(record(delivery_attempt=2), Retry())])
    assert [code for code, _ in broker.got] == [SEND_BACK, SEND]
    copy = broker.got[1][1]
    assert (copy["b"], copy["e"], copy["n"], copy["j"], copy["l"]) == ("%RETRY%g", "0", "a", "3", "16")
    assert [value_of(copy["i"], name) for name in ("RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "DELAY")] == [
        "orders",
        "ID",
        "5",
    ]
    assert rows.retried == 1


@pytest.mark.parametrize("code", [ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.FLUSH_DISK_TIMEOUT])
def test_a_copy_that_the_next_master_may_lack_does_not_count_as_sent_back(code: int) -> None:
    broker = Broker(refuses=ResponseCode.SYSTEM_ERROR, refuses_copies=code)
    carrier = rows_to(broker)
    with pytest.raises(BrokerError) as caught:
        broker.call(carrier.carry(record(), Fate()))
    assert caught.value.code == code and [each for each, _ in broker.got] == [SEND_BACK, SEND]
    alone = Broker(refuses=ResponseCode.SYSTEM_ERROR, refuses_copies=ResponseCode.SLAVE_NOT_AVAILABLE)
    alone.call(rows_to(alone).carry(record(), Fate()))  # no member is in sync: nobody takes over without it


def test_a_row_without_a_body_that_its_broker_refuses_fails_its_task() -> None:
    rows = rows_to(Broker(refuses=ResponseCode.NO_PERMISSION))
    with pytest.raises(BrokerError, match="no such message"):
        rows.send_back([(record(None), Retry())])
    assert rows.retried == 0


def test_a_row_without_a_response_is_not_copied_but_tried_again_for_a_while() -> None:
    broker = Broker(fails=TransportError("gone"))
    rows = rows_to(broker)
    with pytest.raises(SourceUnreachableError, match="sending back orders/a/1/7"):
        rows.send_back([(record(), Retry())])
    assert {code for code, _ in broker.got} == {SEND_BACK} and rows.retried == 0


def test_a_row_tells_why_with_the_send_back_or_where_that_tells_nothing_with_a_copy() -> None:
    verdict = failed(raised(ValueError("card 4111")))
    for is_apache, code in ((False, SEND_BACK), (True, SEND)):
        broker = Broker(is_apache=is_apache)
        telling = Telling("7", lambda text: text.replace("4111", "****"))
        rows = RowSendBack(cast(Any, broker), SourceOptions(nameserver="n:1"), "g", 16, "query/0", telling)
        rows.send_back([(record(delivery_attempt=2), verdict)])
        [(asked, header)] = broker.got
        assert asked == code and rows.retried == 1
        text = header["i"] if is_apache else header.failure_story
        story = FailureStory.of(split_items(text))
        assert story is not None
        assert (story.newest.error_class, story.newest.text) == ("ValueError", "card ****")
        assert (story.newest.version, story.newest.attempt) == ("7", 3)
        if is_apache:
            assert (header["j"], header["l"], value_of(text, "DELAY")) == ("3", "16", "5")


def test_a_copy_that_apache_does_not_take_goes_back_without_its_story() -> None:
    broker = Broker(refuses_copies=ResponseCode.MESSAGE_ILLEGAL, is_apache=True)
    rows = rows_to(broker)
    rows.send_back([(record(), Retry(reason="x"))])
    assert [code for code, _ in broker.got] == [SEND, SEND_BACK] and rows.retried == 1


def test_a_mask_that_fails_hides_reason_and_story_and_the_row_is_dead_all_the_same() -> None:
    broker = Broker()
    telling = Telling("", lambda text: 1 / 0)  # type: ignore[arg-type, return-value]
    rows = RowSendBack(cast(Any, broker), SourceOptions(nameserver="n:1"), "g", 16, "query/0", telling)
    rows.send_back([(record(), Dead("card 4111"))])
    [(_, copy)] = broker.got
    assert "4111" not in copy["i"] and value_of(copy["i"], "DLQ_ERROR") == MASK_FAILED and rows.dead == 1


def raised(error: Exception) -> Exception:
    try:
        raise error
    except Exception as own:
        return own


def test_a_dead_row_is_a_copy_that_has_no_attempts_left() -> None:
    broker = Broker()
    rows = rows_to(broker)
    rows.send_back([(record(), Dead("no"))])
    [(code, copy)] = broker.got
    assert (code, copy["j"], copy["l"], value_of(copy["i"], "DLQ_ERROR"), rows.dead) == (SEND, "1", "0", "no", 1)


# --- decisions ---


def letter(of: Record, verdict: Dead, batch: str) -> str:
    """The properties of the dead letter that a row becomes."""
    broker = Broker()
    rows = RowSendBack(cast(Any, broker), SourceOptions(nameserver="n:1"), "g", 16, batch)
    rows.send_back([(of, verdict)])
    [(_, copy)] = broker.got
    assert fate_of(of, verdict, batch).facts.items() <= split_items(copy["i"]).items()
    return cast(str, copy["i"])


def test_rows_that_were_tried_often_enough_are_dead() -> None:
    assert decided(record(delivery_attempt=2), Retry(reason="r"), 3) == Retry(reason="r")
    assert decided(record(delivery_attempt=3), Retry(reason="r"), 3) == Dead("r", "attempts")
    assert decided(record(delivery_attempt=3), Retry(), 3) == Dead("it was tried 4 times", "attempts")


def test_a_dead_letter_tells_what_happened_and_keeps_what_it_had() -> None:
    raw = "UNIQ_KEY\x01ID\x02shop\x01north\x02DELAY\x013\x02TRAN_MSG\x01true\x02"
    text = letter(record(raw_properties=raw), Dead("no\x01 \x02way" + "!" * 2_000), "query/5")
    found = decode_properties(text.encode())
    assert len(found["DLQ_ERROR"]) == 1_000 and found["DLQ_ERROR"].startswith("no   way!")
    assert (found["DLQ_STAGE"], found["DLQ_BATCH"], found["DLQ_SOURCE"]) == ("handler", "query/5", "orders/a/1/7")
    assert (found["RETRY_TOPIC"], found["ORIGIN_MESSAGE_ID"], found["shop"]) == ("orders", "ID", "north")
    assert "DELAY" not in found and "TRAN_MSG" not in found
    second = letter(record(stored_topic="%RETRY%g", raw_properties=text), Dead(""), "query/6")
    assert decode_properties(second.encode())["RETRY_TOPIC"] == "orders", "the first topic stays"
