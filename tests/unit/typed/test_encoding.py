"""Values as bodies: which format a type gets, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import pytest

from pyromq.errors import MessageRefusedError
from pyromq.typed import Encoded, encode


@dataclass
class Order:
    id: int


class Renamed(msgspec.Struct):
    __schema_name__: ClassVar = "shop.order.v2"
    id: int


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (b"\x00", Encoded(b"\x00", "application/octet-stream")),
        (bytearray(b"ab"), Encoded(b"ab", "application/octet-stream")),
        (memoryview(b"ab"), Encoded(b"ab", "application/octet-stream")),
        ("grüße", Encoded("grüße".encode(), "text/plain")),
        ({"a": 1}, Encoded(b'{"a":1}', "application/json")),
        ([1, None, True], Encoded(b"[1,null,true]", "application/json")),
        (42, Encoded(b"42", "application/json")),
        (None, Encoded(b"null", "application/json")),
        (Order(1), Encoded(b'{"id":1}', "application/json", "Order")),
        (Renamed(1), Encoded(b'{"id":1}', "application/json", "shop.order.v2")),
        ([Order(1)], Encoded(b'[{"id":1}]', "application/json")),
    ],
    ids=repr,
)
def test_the_type_of_a_value_chooses_its_format(value: Any, encoded: Encoded) -> None:
    assert encode(value) == encoded


def test_a_sender_may_name_the_format() -> None:
    packed = encode(Order(1), content_type="application/msgpack")
    assert (packed.content_type, packed.schema) == ("application/msgpack", "Order")
    assert msgspec.msgpack.decode(packed.body) == {"id": 1}
    assert encode("a", content_type="application/json").body == b'"a"'
    assert encode(b"%PDF", content_type="application/pdf") == (b"%PDF", "application/pdf", "")
    assert encode({"a": 1}, content_type="application/vnd.shop+json").content_type == "application/vnd.shop+json"


class Opaque:
    pass


def circle() -> list[Any]:
    round_: list[Any] = []
    round_.append(round_)
    return round_


@pytest.mark.parametrize(
    ("value", "content_type", "words"),
    [
        (Opaque(), None, "a value of type Opaque cannot be sent as application/json"),
        ([Opaque()], None, "Opaque is neither"),
        (circle(), None, "nested too deeply"),
        ("\ud800", None, "surrogates"),
        ({(1, 2): 3}, None, "tuple is neither"),
        (1 << 70, "application/msgpack", "cannot be sent as application/msgpack"),
        (Order(1), "text/plain", "Order is not written as 'text/plain'"),
        (Order(1), "application/pdf", "Order is not written"),
        (Order(1), "json", "write kind/name"),
        (Order(1), "a/\x01b", "write kind/name"),
        (Order(1), 3, "write kind/name"),
    ],
)
def test_a_value_that_cannot_be_written_is_refused(value: Any, content_type: Any, words: str) -> None:
    with pytest.raises(MessageRefusedError, match=words) as caught:
        encode(value, content_type=content_type)
    assert str(caught.value).isprintable()
