"""Our codec beside Google's: the same messages, the same bytes."""

from __future__ import annotations

import random
from typing import Annotated, Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st
from msgspec import field

from pyromq.wire.grpc.definitions import GrpcMessage, ProtoTime, Resource, SystemProperties
from pyromq.wire.grpc.protobuf import FIELDS_MAX, Proto, ProtobufError, decode
from pyromq.wire.grpc.services import SendMessageRequest, TelemetryCommand

FIELD = descriptor_pb2.FieldDescriptorProto


class Inner(Proto):
    name: Annotated[str, 1] = ""


class Everything(Proto):
    text: Annotated[str, 1] = ""
    data: Annotated[bytes, 2] = b""
    number: Annotated[int, 3] = 0
    truth: Annotated[bool, 4] = False
    real: Annotated[float, 5] = 0.0
    inner: Annotated[Inner | None, 6] = None
    texts: Annotated[list[str], 7] = field(default_factory=list)
    inners: Annotated[list[Inner], 8] = field(default_factory=list)
    numbers: Annotated[list[int], 9] = field(default_factory=list)
    table: Annotated[dict[str, str], 16] = field(default_factory=dict)
    maybe: Annotated[str | None, 17] = None
    perhaps: Annotated[int | None, 2000] = None


def _google() -> Any:
    """The same message, as Google's package makes it."""
    file = descriptor_pb2.FileDescriptorProto(name="everything.proto", package="test", syntax="proto3")
    inner = file.message_type.add(name="Inner")
    inner.field.add(name="name", number=1, type=FIELD.TYPE_STRING, label=FIELD.LABEL_OPTIONAL)
    every = file.message_type.add(name="Everything")
    plain = [
        *(("text", 1, FIELD.TYPE_STRING), ("data", 2, FIELD.TYPE_BYTES), ("number", 3, FIELD.TYPE_INT64)),
        *(("truth", 4, FIELD.TYPE_BOOL), ("real", 5, FIELD.TYPE_FLOAT)),
    ]
    for name, number, kind in plain:
        every.field.add(name=name, number=number, type=kind, label=FIELD.LABEL_OPTIONAL)
    kinds = {"type": FIELD.TYPE_MESSAGE, "type_name": ".test.Inner"}
    every.field.add(name="inner", number=6, label=FIELD.LABEL_OPTIONAL, **kinds)
    every.field.add(name="texts", number=7, type=FIELD.TYPE_STRING, label=FIELD.LABEL_REPEATED)
    every.field.add(name="inners", number=8, label=FIELD.LABEL_REPEATED, **kinds)
    every.field.add(name="numbers", number=9, type=FIELD.TYPE_INT64, label=FIELD.LABEL_REPEATED)
    entry = every.nested_type.add(name="TableEntry")
    entry.options.map_entry = True
    for name, number in (("key", 1), ("value", 2)):
        entry.field.add(name=name, number=number, type=FIELD.TYPE_STRING, label=FIELD.LABEL_OPTIONAL)
    every.field.add(
        name="table",
        number=16,
        type=FIELD.TYPE_MESSAGE,
        type_name=".test.Everything.TableEntry",
        label=FIELD.LABEL_REPEATED,
    )
    for index, (name, number, kind) in enumerate(
        (("maybe", 17, FIELD.TYPE_STRING), ("perhaps", 2000, FIELD.TYPE_INT32))
    ):
        every.oneof_decl.add(name=f"_{name}")
        every.field.add(
            name=name, number=number, type=kind, label=FIELD.LABEL_OPTIONAL, oneof_index=index, proto3_optional=True
        )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("test.Everything"))


GOOGLE = _google()
TEXT = st.text(max_size=20)
LONG = st.integers(-(1 << 63), (1 << 63) - 1)


@given(
    st.builds(
        Everything,
        text=TEXT,
        data=st.binary(max_size=200),
        number=LONG,
        truth=st.booleans(),
        real=st.floats(width=32, allow_nan=False),
        inner=st.none() | st.builds(Inner, name=TEXT),
        texts=st.lists(TEXT, max_size=4),
        inners=st.lists(st.builds(Inner, name=TEXT), max_size=4),
        numbers=st.lists(LONG, max_size=4),
        table=st.dictionaries(TEXT, TEXT, max_size=4),
        maybe=st.none() | TEXT,
        perhaps=st.none() | st.integers(-(1 << 31), (1 << 31) - 1),
    )
)
def test_google_reads_what_we_write_and_we_read_what_google_writes(message: Everything) -> None:
    theirs = GOOGLE.FromString(message.encode())
    assert (theirs.text, theirs.data, theirs.number, theirs.truth) == (
        message.text,
        message.data,
        message.number,
        message.truth,
    )
    assert [each.name for each in theirs.inners] == [each.name for each in message.inners]
    assert (list(theirs.texts), list(theirs.numbers), dict(theirs.table)) == (
        message.texts,
        message.numbers,
        message.table,
    )
    assert theirs.HasField("maybe") == (message.maybe is not None)
    assert theirs.HasField("inner") == (message.inner is not None)
    assert decode(Everything, theirs.SerializeToString()) == message
    assert decode(Everything, message.encode()) == message


def test_unknown_fields_are_skipped_whatever_their_wire_type() -> None:
    known = Inner(name="here").encode()
    unknown = b"\x10\x07" + b"\x19" + b"\0" * 8 + b"\x22\x02xx" + b"\x2d" + b"\0" * 4
    assert decode(Inner, unknown + known + unknown) == Inner(name="here")
    assert decode(Inner, b"\x08\x05" + known) == Inner(name="here"), "field 1 as a number is not the text"


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a\x05abc",
        b"\x0a",
        b"\x80",
        b"\x0a\x02\xff\xfe",
        b"\x0b\x0c",
        b"\x00\x01",
        b"\x10" + b"\xff" * 11,
        b"\x22\x7f",
        b"\x19\0\0",
    ],
)
def test_damaged_bytes_are_an_error(data: bytes) -> None:
    with pytest.raises(ProtobufError):
        decode(Inner, data)


def test_a_message_of_nothing_but_fields_is_refused_before_it_costs_seconds() -> None:
    with pytest.raises(ProtobufError, match="fields"):
        decode(Inner, b"\x10\x00" * (FIELDS_MAX + 1))
    with pytest.raises(ProtobufError, match="fields"):
        decode(SendMessageRequest, b"\x0a\x00" * (FIELDS_MAX + 1))
    with pytest.raises(ProtobufError, match="fields"):
        packed = b"\x01" * (FIELDS_MAX + 1)
        decode(
            Everything,
            b"\x4a" + bytes((len(packed) & 0x7F | 0x80, (len(packed) >> 7) & 0x7F | 0x80, len(packed) >> 14)) + packed,
        )


def test_random_bytes_are_a_message_or_an_error() -> None:
    rng = random.Random(7)
    good = SendMessageRequest(
        messages=[
            GrpcMessage(
                topic=Resource(name="orders"),
                body=b"x" * 50,
                system_properties=SystemProperties(keys=["a", "b"], born_timestamp=ProtoTime(seconds=5)),
            )
        ]
    ).encode()
    for _ in range(3_000):
        data = bytearray(good)
        for _ in range(rng.randrange(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        for kind in (SendMessageRequest, TelemetryCommand):
            try:
                decode(kind, bytes(data[: rng.randrange(len(data) + 1)]))
            except ProtobufError:
                pass
