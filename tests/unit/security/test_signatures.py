"""Signatures of requests: what is covered, and that the short way finds what the plain way finds."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.security.book import Book
from pyromq.security.errors import AccessDeniedError
from pyromq.security.identity import Peer
from pyromq.security.policies import UserStatus
from pyromq.security.validators import SignatureValidator
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.fast.signed_fields import signed_fields
from pyromq.wire.frame import SerializeType
from pyromq.wire.received import Received
from pyromq.wire.signature import ACCESS_KEY, SIGNATURE, SigningKey, signed_content, unsigned_fields, verify
from tests.unit.security.people import add_user, pull_fields, request, secret_of, send_fields

HERE = Peer("10.1.2.3")
BOTH_FORMS = pytest.mark.parametrize("form", list(SerializeType))


def one_user() -> tuple[Book, SignatureValidator]:
    book = Book()
    add_user(book, "alice")
    return book, SignatureValidator(book)


def name_of(validator: SignatureValidator, received: Received[Any]) -> str:
    return validator.validate(validator.parse(received, HERE)).name


@given(st.binary(max_size=200), st.text(min_size=1, max_size=90))
def test_a_key_made_ready_signs_as_hmac_does(content: bytes, secret: str) -> None:
    expected = b64encode(hmac.new(secret.encode("utf-8", "replace"), content, hashlib.sha1).digest())
    assert SigningKey(secret).sign(content) == expected
    assert SigningKey(secret).matches(expected.decode(), content)
    assert not SigningKey(secret).matches(expected.decode()[:-2] + "==", content + b"x")


def test_the_vector_of_the_facts() -> None:
    assert SigningKey("sk12345678").sign(b"akTopicTest") == b"+6btn2NsgYAznu9MzWzOCoydu/w="


@BOTH_FORMS
def test_signed_requests_are_known(form: SerializeType) -> None:
    _, validator = one_user()
    for code, fields, body in (
        (Code.SEND_MESSAGE_V2, send_fields("orders"), b"body"),
        (Code.PULL_MESSAGE, pull_fields("orders", "g"), b""),
        (Code.HEART_BEAT, {}, b'{"clientID":"c"}'),
        (Code.SEND_MESSAGE_V2, {**send_fields("名前"), "ns": "x", "unknown": "yes"}, b""),
    ):
        assert name_of(validator, request(code, fields, body, user="alice", serialize_type=form)) == "alice"


@BOTH_FORMS
def test_what_was_changed_on_the_way_is_refused(form: SerializeType) -> None:
    _, validator = one_user()
    good = send_fields("orders")
    signature = dict(request(Code.SEND_MESSAGE_V2, good, b"body", user="alice").ext())[SIGNATURE]
    signed = {**good, ACCESS_KEY: "alice", SIGNATURE: signature}

    def refused(fields: dict[str, str], body: bytes) -> bool:
        received = request(Code.SEND_MESSAGE_V2, fields, body, serialize_type=form)
        try:
            return name_of(validator, received) != "alice"
        except AccessDeniedError:
            return True

    assert not refused(signed, b"body")
    assert refused(signed, b"other body")
    assert refused({**signed, "b": "payments"}, b"body")
    assert refused({**signed, "extra": "field"}, b"body")
    assert refused({**signed, "ns": "field"}, b"body")
    assert refused({name: value for name, value in signed.items() if name != "n"}, b"body")
    assert refused({**signed, SIGNATURE: signature.lower()}, b"body")
    assert refused({**signed, SIGNATURE: ""}, b"body")
    assert refused({**signed, ACCESS_KEY: "bob"}, b"body")


def test_a_boundary_that_is_moved_between_two_fields_stays_signed_as_in_rocketmq() -> None:
    """The content has no separators: what the names mean is protected by TLS, and by what the fields may hold."""
    _, validator = one_user()
    good = {**send_fields("orders", group="shop"), "c": "TBW102"}
    signature = request(Code.SEND_MESSAGE_V2, good, user="alice").ext()[SIGNATURE]
    moved = {**good, "a": "shopo", "b": "rders", ACCESS_KEY: "alice", SIGNATURE: signature}
    assert name_of(validator, request(Code.SEND_MESSAGE_V2, moved)) == "alice"


def test_strangers_the_disabled_and_the_nameless_are_refused() -> None:
    book, validator = one_user()
    for user, secret, text in (
        ("bob", None, "User:bob is not found."),
        ("alice", "wrong", "check signature failed."),
        ("", None, "username cannot be null."),
    ):
        with pytest.raises(AccessDeniedError, match=text):
            name_of(validator, request(Code.SEND_MESSAGE_V2, send_fields("t"), user=user, secret=secret))
    add_user(book, "root", is_super=True)
    book.update_user("alice", None, None, UserStatus.DISABLE)
    with pytest.raises(AccessDeniedError, match=r"User:alice is disabled\."):
        name_of(validator, request(Code.SEND_MESSAGE_V2, send_fields("t"), user="alice"))


texts = st.text(st.characters(codec="utf-8"), max_size=6)
names = st.sampled_from([*"abcdefghijklmn", "AccessKey", "SecurityToken", "Signature", "ns", "bname", "zz", "B", "é"])


@given(st.dictionaries(names, texts), st.sampled_from([310, 11, 34, 12, 9_999]), st.binary(max_size=4))
def test_the_short_way_finds_what_the_plain_way_finds(ext: dict[str, str], code: int, body: bytes) -> None:
    from pyromq.wire.command import encode_request
    from pyromq.wire.frame import FrameDecoder

    (frame,) = FrameDecoder().feed(encode_request(code, 1, ext, body=body))
    found = signed_fields(code, frame.header)
    if found is not None:
        plain = signed_content(ext, None, exclude=unsigned_fields(479))
        assert found == (ext.get(ACCESS_KEY, ""), ext.get(SIGNATURE, ""), plain)
        assert SigningKey("s").matches(found[1], found[2] + body) == verify(ext, body, "s")


def test_the_short_way_is_taken_by_ordinary_requests_and_left_by_odd_ones() -> None:
    ordinary = request(Code.SEND_MESSAGE_V2, send_fields("t"), user="alice")
    assert signed_fields(Code.SEND_MESSAGE_V2, ordinary.frame.header) is not None
    pull = request(Code.PULL_MESSAGE, {**pull_fields("t", "g"), "lo": "true", "bname": "b"}, user="alice")
    assert signed_fields(Code.PULL_MESSAGE, pull.frame.header) is not None
    odd = request(Code.SEND_MESSAGE_V2, {**send_fields("t"), "odd": "1"}, user="alice")
    assert signed_fields(Code.SEND_MESSAGE_V2, odd.frame.header) is None
    for text in (b"", b"{", b"[]", b'{"extFields":null}', b'{"extFields":{"a":3}}', b'{"extFields":{"a":"\xff"}}'):
        assert signed_fields(Code.SEND_MESSAGE_V2, text) is None
    assert secret_of("alice").encode() not in ordinary.frame.header
