"""Packed copies: the bytes that each row by itself would give, and which rows do not go the plain way."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.model import property_names as names
from pyromq.model.names import retry_topic
from pyromq.operate.resend.originals import OriginalMessages
from pyromq.operate.resend.outcomes import ItemStatus
from pyromq.operate.resend.outgoing import Outgoing, redriven_id
from pyromq.pipeline.jobs.resending.executors import PartTask
from pyromq.pipeline.jobs.resending.packed import BATCH_BYTES, Copier, PackedRows, sent_as, texts_of
from pyromq.pipeline.jobs.resending.redrive import RedrivenLetter
from pyromq.pipeline.jobs.resending.replay import REPLAYED_FROM, ReplayedMessage, replayed_id
from pyromq.wire.batch import BatchItem, encode_batch
from pyromq.wire.properties import PROPERTIES_BYTES_MAX
from pyromq.wire.property_text import encode_text, join_items
from tests.unit.pipeline.jobs.resending.rows import row

SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("topic", "message_id", "offset_message_id", "keys", "tags")]
    + [("flag", pa.int32()), ("properties", pa.map_(pa.string(), pa.string())), ("body", pa.binary())]
)
REPLAYED = ReplayedMessage("to", "run", False)
LETTER = RedrivenLetter("g", OriginalMessages(), None, False)


def batch_of(*rows: dict[str, Any]) -> pa.RecordBatch:
    maps = [{**each, "properties": list(each["properties"].items())} for each in rows]
    return pa.RecordBatch.from_pylist(maps, SCHEMA)


def plain(place: str = "O", **more: Any) -> dict[str, Any]:
    return row(offset_message_id=place, **more)


def packed(*rows: dict[str, Any], copier: Copier = REPLAYED, sent: frozenset[str] | None = frozenset()) -> PackedRows:
    return PackedRows(batch_of(*rows), copier, sent)


ANY_TEXT = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=12)
PROPERTIES = st.dictionaries(
    st.one_of(
        ANY_TEXT,
        st.sampled_from([names.KEYS, names.UNIQUE_KEY, names.RETRY_TOPIC, names.SHARDING_KEY, REPLAYED_FROM, "colour"]),
    ),
    ANY_TEXT,
    max_size=6,
)


@settings(max_examples=60)
@given(
    st.lists(
        st.builds(
            plain,
            ANY_TEXT,
            properties=PROPERTIES,
            body=st.binary(min_size=1, max_size=30),
            flag=st.integers(-(2**31), 2**31 - 1),
            keys=st.none() | ANY_TEXT,
        ),
        min_size=1,
        max_size=8,
    ),
    st.integers(0, 3),
    st.sampled_from([REPLAYED, LETTER]),
)
def test_items_are_those_of_each_row_by_itself(rows: list[dict[str, Any]], skipped: int, copier: Copier) -> None:
    """Also of a part of a record batch, whose columns begin further behind."""
    found = PackedRows(batch_of(*rows).slice(skipped), copier, frozenset())
    assert len(found.copies) == max(0, len(rows) - skipped)
    for number, (each, copy) in enumerate(zip(rows[skipped:], found.copies, strict=True)):
        message = copier(each)
        if not isinstance(message, Outgoing):
            assert copy is None, "a letter without a topic is no message"
            continue
        assert copy is not None and copy.number == number
        text = encode_text(join_items(message.properties))
        assert b"".join(copy.parts) == encode_batch([BatchItem(message.body, text, message.flag)])
        assert copy.size == sum(map(len, copy.parts))
        assert (copy.mark.topic, copy.mark.message_id) == (message.topic, message.message_id)
        assert copy.key == message.sharding_key and copy.mark.sent_as == message.sent_as
        assert sent_as(found.sources[number], copy.mark) == message.source.ended(
            sent_as(message.source, copy.mark).status
        )
        assert list(map(copier, found.rows([number]))) == [message]


@pytest.mark.parametrize(
    "more",
    [
        {"body": b""},
        {"body": None},
        {"properties": {names.PRIORITY: "3"}},
        {"properties": {"large": "x" * PROPERTIES_BYTES_MAX}},
        {"body": bytes(BATCH_BYTES)},
    ],
)
def test_rows_that_brokers_take_alone_are_left_to_the_careful_way(more: dict[str, Any]) -> None:
    found = packed(plain("A"), plain("B", **more), plain("C"))
    assert [copy is None for copy in found.copies] == [False, True, False]
    assert [each["offset_message_id"] for each in found.rows([1])] == ["B"]


def test_what_was_sent_before_or_has_to_be_looked_for_is_not_packed() -> None:
    named = ReplayedMessage("to", "run", True)
    known = frozenset([replayed_id("run", "A")])
    again = packed(plain("A"), plain("B"), copier=named, sent=known)
    assert [each is None for each in again.copies] == [True, False]
    told = PartTask(nameserver="", options={}, item_of=named, rate=None, sent=known)._item(plain("A"))
    assert sent_as(again.sources[0], again.sent_before[0], ItemStatus.SENT_BEFORE) == told
    assert packed(plain(), copier=named, sent=None).copies == [None], "nobody has looked"
    assert packed(plain(), sent=None).copies != [None], "nobody wants to look"


def test_letters_that_others_decide_are_not_packed() -> None:
    originals = OriginalMessages()
    for place, message_id, redriven_from in (("A", "1", ""), ("B", "1", ""), ("C", "2", ""), ("D", "3", "C")):
        originals.add(place, topic="orders", message_id=message_id, redriven_from=redriven_from)
    rows = [plain(place) for place in "ABCDE"]
    for known in (originals, originals.related()):
        found = packed(*rows, copier=RedrivenLetter("g", known, None, False))
        assert [each is None for each in found.copies] == [False, True, True, False, False], "B is A's, C was sent"
        assert found.copies[0] is not None and found.copies[0].mark.sent_as == (redriven_id("A"), redriven_id("B"))
        sent = packed(*rows, copier=RedrivenLetter("g", known, None, False), sent=frozenset([redriven_id("B")]))
        assert sent.copies[0] is None, "its message was sent, for another of its letters"
    for other in (RedrivenLetter("g", originals, None, True), RedrivenLetter("g", originals, lambda each: each, False)):
        assert packed(plain("E"), copier=other).copies == [None], "for one group alone, or patched"
    to_retry = plain("E", properties={names.RETRY_TOPIC: retry_topic("other")})
    assert packed(to_retry, copier=LETTER).copies == [None], "brokers take no batches there"


def test_texts_of_a_column_are_those_of_arrow() -> None:
    for some in (["a", None, "", "bc"], ["ä", "b", None], [], [None]):
        column = pa.array(some, pa.string())
        assert texts_of(column) == some
        assert texts_of(column.slice(1)) == some[1:]


def test_large_types_of_arrow_are_packed_alike() -> None:
    """As Spark makes them with spark.sql.execution.arrow.useLargeVarTypes."""
    large = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary(), pa.int32(): pa.int32()}
    maps = pa.map_(pa.large_string(), pa.large_string())
    batch = batch_of(plain("A"), plain("B", keys=None))
    found = PackedRows(
        batch.cast(pa.schema([(each.name, large.get(each.type, maps)) for each in SCHEMA])), REPLAYED, frozenset()
    )
    alike = PackedRows(batch, REPLAYED, frozenset())
    assert [copy and b"".join(copy.parts) for copy in found.copies] == [
        copy and b"".join(copy.parts) for copy in alike.copies
    ]
    assert found.sources == alike.sources and None not in found.copies
