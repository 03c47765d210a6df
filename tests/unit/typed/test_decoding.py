"""Decoders by annotation: what each format gives, and what an error says when it does not."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, Optional, TypedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from pydantic.dataclasses import dataclass as pydantic_dataclass

from pyromq.errors import BodyError, ConfigError
from pyromq.typed import CONTENT_TYPE, Codec, decoder_for, describe, encode, register, unregister

JSON = {CONTENT_TYPE: "application/json"}
MSGPACK = {CONTENT_TYPE: "application/msgpack"}
TEXT = {CONTENT_TYPE: "text/plain"}
BYTES = {CONTENT_TYPE: "application/octet-stream"}


class Item(msgspec.Struct):
    name: str
    price: float


class Order(msgspec.Struct):
    id: int
    items: list[Item] = []


@dataclass
class Payment:
    order: int
    amount: Decimal
    at: datetime | None = None


class Address(TypedDict):
    city: str


class Point(NamedTuple):
    x: int
    y: int


class Customer(BaseModel):
    name: str
    age: int = Field(ge=0)


@pydantic_dataclass
class Visit:
    page: str


class Mixed(msgspec.Struct):
    customer: Customer


@pytest.mark.parametrize(
    ("annotation", "body", "value"),
    [
        (bytes, b"\x00\xff", b"\x00\xff"),
        (bytearray, b"ab", bytearray(b"ab")),
        (str, "grüße".encode(), "grüße"),
        (Optional[str], b"x", "x"),  # noqa: UP045
        (dict, b'{"a": 1}', {"a": 1}),
        (dict[str, int], b'{"a": 1}', {"a": 1}),
        (list, b"[1]", [1]),
        (int, b"7", 7),
        (float, b"7.5", 7.5),
        (bool, b"true", True),
        (Any, b'{"a": [1, null]}', {"a": [1, None]}),
        (None, b"null", None),
        (Order, b'{"id": 1, "items": [{"name": "a", "price": 2}]}', Order(1, [Item("a", 2)])),
        (Order | None, b"null", None),
        (Optional[Order], b'{"id": 1}', Order(1)),  # noqa: UP045
        (Order | int, b"3", 3),
        (Literal["new", "old"], b'"new"', "new"),
        (Payment, b'{"order": 1, "amount": "9.90"}', Payment(1, Decimal("9.90"))),
        (Address, b'{"city": "Rome"}', {"city": "Rome"}),
        (Point, b"[1, 2]", Point(1, 2)),
        (list[Order], b'[{"id": 1}]', [Order(1)]),
        (Annotated[int, msgspec.Meta(ge=0)], b"3", 3),
        (Customer, b'{"name": "Ada", "age": 36}', Customer(name="Ada", age=36)),
        (list[Customer], b'[{"name": "Ada", "age": 36}]', [Customer(name="Ada", age=36)]),
        (Customer | None, b"null", None),
        (Visit, b'{"page": "/"}', Visit("/")),
        (Mixed, b'{"customer": {"name": "Ada", "age": 36}}', Mixed(Customer(name="Ada", age=36))),
    ],
    ids=str,
)
def test_a_message_of_another_client_is_decoded_by_the_annotation_alone(
    annotation: Any, body: bytes, value: Any
) -> None:
    assert decoder_for(annotation)(body, {}) == value


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        (Order(1, [Item("a", 2.5)]), Order),
        (Payment(1, Decimal("9.90"), datetime(2026, 1, 1, tzinfo=UTC)), Payment),
        (Customer(name="Ada", age=36), Customer),
        (Visit("/"), Visit),
        (Mixed(Customer(name="Ada", age=36)), Mixed),
        ([Customer(name="Ada", age=36)], list[Customer]),
        ({"city": "Rome"}, Address),
        (Point(1, 2), Point),
        ("text", str),
        ({1, 2}, set[int]),
        (None, Order | None),
    ],
    ids=repr,
)
@pytest.mark.parametrize("content_type", [None, "application/json", "application/msgpack"])
def test_what_is_encoded_comes_back(value: Any, annotation: Any, content_type: str | None) -> None:
    encoded = encode(value, content_type=content_type)
    assert decoder_for(annotation)(encoded.body, {CONTENT_TYPE: encoded.content_type}) == value


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
    st.sampled_from(["application/json", "application/msgpack"]),
)
def test_any_value_comes_back_in_every_structured_format(value: Any, content_type: str) -> None:
    encoded = encode(value, content_type=content_type)
    assert decoder_for(Any)(encoded.body, {CONTENT_TYPE: content_type}) == value


@given(st.binary())
def test_any_body_decodes_or_raises_a_body_error_of_one_printable_line(body: bytes) -> None:
    for annotation in (Any, Order, Payment, Customer, str, list[Customer], Point):
        for properties in ({}, JSON, MSGPACK, TEXT, BYTES):
            try:
                decoder_for(annotation)(body, properties)
            except BodyError as error:
                assert str(error).isprintable()
                assert len(str(error)) < 1_000


def test_the_content_type_of_a_message_says_how_it_is_read() -> None:
    packed = msgspec.msgpack.encode({"id": 5})
    assert decoder_for(Order)(packed, MSGPACK) == Order(5)
    assert decoder_for(Any)(packed, MSGPACK) == {"id": 5}
    assert decoder_for(Any)(b"hello", TEXT) == "hello"
    assert decoder_for(Any)(b"\xff", BYTES) == b"\xff"
    assert decoder_for(str)(b'"hello"', JSON) == "hello"
    assert decoder_for(bytes)(b'"hello"', JSON) == b'"hello"'
    assert decoder_for(str | int)(b"hello", TEXT) == "hello"


@pytest.mark.parametrize(
    "content_type",
    ["application/json; charset=UTF-8", "APPLICATION/JSON", "application/vnd.shop.order+json", " text/json "],
)
def test_a_content_type_has_many_spellings(content_type: str) -> None:
    assert decoder_for(Order)(b'{"id": 1}', {CONTENT_TYPE: content_type}) == Order(1)


@pytest.mark.parametrize(
    ("annotation", "content_type", "words"),
    [
        (Order, "text/plain", ("Order", "text/plain", "JSON or MessagePack")),
        (Order, "application/octet-stream", ("Order", "application/octet-stream")),
        (int, "application/pdf", ("int", "application/pdf")),
        (Order, "application/json; charset=utf-16", ("utf-16",)),
        (str, "application/avro", ("str", "application/avro", "JSON, MessagePack or text")),
        (Customer, "application/protobuf", ("Customer", "application/protobuf")),
        (Order, "application/\x1b[31m" + "x" * 5_000, ("Order",)),
    ],
)
def test_a_body_of_another_format_is_an_error_that_says_both(
    annotation: Any, content_type: str, words: tuple[str, ...]
) -> None:
    with pytest.raises(BodyError) as caught:
        decoder_for(annotation)(b'{"id": 1}', {CONTENT_TYPE: content_type})
    for word in words:
        assert word in str(caught.value)
    assert caught.value.content_type == content_type
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("annotation", "body", "path", "words"),
    [
        (
            Order,
            b'{"id": 1, "items": [{"name": "a", "price": "x"}]}',
            "$.items[0].price",
            "Expected `float`, got `str`",
        ),
        (Order, b"{}", "", "missing required field `id`"),
        (Order, b'{"id"', "", "truncated"),
        (Order, b"", "", "truncated"),
        (Order, b"[1]", "", "Expected `object`, got `array`"),
        (Any, b"[" * 100_000, "", "nested too deeply"),
        (str, b"\xff\xfe", "", "no UTF-8"),
        (Customer, b'{"name": "Ada", "age": -1}', "$.age", "greater than or equal to 0"),
        (Customer, b"{}", "$.name", "Field required (and 1 more)"),
        (list[Customer], b'[{"name": 1}]', "$[0].name", "valid string"),
        (Mixed, b'{"customer": {"name": 1}}', "$.customer", "validation error"),
        (Point, b'["a", 1]', "$[0]", "Expected `int`"),
    ],
)
def test_an_error_leads_to_the_field(annotation: Any, body: bytes, path: str, words: str) -> None:
    with pytest.raises(BodyError, match="body is no ") as caught:
        decoder_for(annotation)(body, {})
    assert caught.value.path == path
    assert words in caught.value.reason
    assert str(caught.value).isprintable()


def test_an_excerpt_is_short_and_on_one_line_without_control_characters() -> None:
    body = b'{"id":\n\x1b[2J"' + "ü".encode() * 10_000
    with pytest.raises(BodyError) as caught:
        decoder_for(Order)(body, {})
    excerpt = caught.value.excerpt
    assert excerpt.isprintable()
    assert len(excerpt) < 150
    assert f"({len(body)} bytes)" in excerpt
    assert "\\x1b[2J" in excerpt
    assert caught.value.excerpt not in caught.value.summary


def test_a_body_error_travels_between_processes() -> None:
    with pytest.raises(BodyError) as caught:
        decoder_for(Order)(b"[]", {})
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.expected, copy.excerpt) == (str(caught.value), "Order", "[]")


def test_a_decoder_is_made_once_for_an_annotation() -> None:
    assert decoder_for(Order) is decoder_for(Order)
    assert decoder_for(list[Order]) is decoder_for(list[Order])
    assert decoder_for(Annotated[int, {"unhashable": 1}])(b"1", {}) == 1


class Opaque:
    def __init__(self, value: int) -> None:
        self.value = value


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (Opaque, "no body can be read as Opaque"),
        (Order | Payment, "more than one dict-like type"),
        (Opaque | None, "Opaque"),
    ],
)
def test_a_type_that_nothing_is_read_as_is_refused_when_the_decoder_is_made(annotation: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        decoder_for(annotation)


@pytest.fixture
def opaque() -> Iterator[Codec]:
    yield register(
        Codec(
            type=Opaque,
            content_type="application/vnd.opaque",
            encode=lambda value: str(value.value).encode(),
            decode=lambda body, schema: Opaque(int(body)),
            schema="opaque.v1",
        )
    )
    unregister(Opaque)


def test_an_own_codec_writes_and_reads_its_type(opaque: Codec) -> None:
    encoded = encode(Opaque(42))
    assert encoded == (b"42", "application/vnd.opaque", "opaque.v1")
    assert decoder_for(Opaque)(b"42", {}).value == 42
    assert decoder_for(Opaque | None)(b"42", {CONTENT_TYPE: "application/vnd.opaque"}).value == 42
    with pytest.raises(BodyError, match="invalid literal"):
        decoder_for(Opaque)(b"x", {})
    with pytest.raises(BodyError, match=r"the message is text/plain, and Opaque is read from application/vnd\.opaque"):
        decoder_for(Opaque)(b"42", TEXT)
    assert describe(Opaque).schema == "opaque.v1"


def test_a_type_has_one_codec(opaque: Codec) -> None:
    assert register(opaque) is opaque
    with pytest.raises(ConfigError, match="has a codec already"):
        register(Codec(type=Opaque, content_type="a/b", encode=bytes, decode=lambda body, schema: body))


def test_a_codec_that_cannot_reach_its_registry_makes_no_body_error() -> None:
    def unreachable(body: bytes, schema: str) -> Any:
        raise ConnectionError("the registry is down")

    register(Codec(type=Opaque, content_type="a/b", encode=bytes, decode=unreachable))
    try:
        with pytest.raises(ConnectionError):
            decoder_for(Opaque)(b"1", {})
    finally:
        unregister(Opaque)


@pytest.mark.parametrize("kind", [dict, bytes, 3, "Order"])
def test_a_codec_is_for_a_class_of_the_application(kind: Any) -> None:
    with pytest.raises(ConfigError, match="a codec is for"):
        Codec(type=kind, content_type="a/b", encode=bytes, decode=lambda body, schema: body)


def test_a_description_says_how_a_type_travels() -> None:
    described = describe(Order)
    assert (described.content_type, described.schema) == ("application/json", "Order")
    assert "Order" in described.json_schema["$defs"]
    assert describe(Customer).json_schema["required"] == ["name", "age"]
    assert describe(bytes).content_type == "application/octet-stream"
    assert describe(str).json_schema == {"type": "string"}
    assert describe(list[Order]).schema == ""


def test_nothing_optional_is_imported_for_types_of_python() -> None:
    code = """
import sys, msgspec
from pyromq.typed import decoder_for, encode, describe
class Order(msgspec.Struct):
    id: int
decoder_for(Order)(encode(Order(1)).body, {}); describe(Order)
print(sorted({"pydantic", "fastavro", "google.protobuf", "asyncio"} & set(sys.modules)))
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
