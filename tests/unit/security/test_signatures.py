"""Signatures of requests: what is covered, and that the short way finds what the plain way finds."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.compiled_core import DESCRIPTION, core
from pyromq.security.errors import AccessDeniedError
from pyromq.security.identity import Peer
from pyromq.security.policies import UserStatus
from pyromq.security.secret import Secret
from pyromq.security.user_store import UserStore
from pyromq.security.validators import SignatureValidator
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.ext import header_to_ext
from pyromq.wire.fast.signed_fields import signed_fields
from pyromq.wire.fast.signed_requests import decode_signed, signed_values
from pyromq.wire.frame import Frame, SerializeType
from pyromq.wire.header_errors import HeaderFieldError, UndecodableHeaderError
from pyromq.wire.headers import REQUEST_HEADERS
from pyromq.wire.received import Received, decode_received
from pyromq.wire.signature import ACCESS_KEY, SIGNATURE, SigningKey, sign, signed_content, unsigned_fields, verify
from tests.unit.security.people import add_user, allow, entry, guard_of, pull_fields, request, secret_of, send_fields

HERE = Peer("10.1.2.3")
BOTH_FORMS = pytest.mark.parametrize("form", list(SerializeType))


def one_user() -> tuple[UserStore, SignatureValidator]:
    book = UserStore()
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


# --- hot requests: one decoding, and the compiled core ---

with_core = pytest.mark.skipif(core is None, reason=DESCRIPTION)
HOT = {
    Code.SEND_MESSAGE_V2: send_fields("orders"),
    Code.SEND_BATCH_MESSAGE: {**send_fields("orders"), "m": "true", "l": "3"},
    Code.PULL_MESSAGE: {**pull_fields("orders", "g"), "lo": "true", "bname": "b", "maxMsgBytes": "7"},
    Code.LITE_PULL_MESSAGE: pull_fields("orders", "g"),
}
ODD_TEXTS = st.sampled_from(["3", "03", "+3", "3.0", " 3", "", "true", "TRUE", "1", "0", "false", "名", "None", "-0"])


def verdict(validator: SignatureValidator, received: Received[Any]) -> str:
    """By the way that guards take: a name, or why not."""
    try:
        return validator.vouch(received, HERE).name
    except AccessDeniedError as error:
        return str(error)


def plain_verdict(validator: SignatureValidator, received: Received[Any]) -> str:
    try:
        return name_of(validator, received)
    except AccessDeniedError as error:
        return str(error)


@pytest.mark.parametrize("code", list(HOT))
def test_hot_requests_are_verified_from_one_decoding(code: Code) -> None:
    frame = request(code, HOT[code], b"body", user="alice").frame
    received, plain = decode_signed(frame), decode_received(frame)
    assert isinstance(received.header, REQUEST_HEADERS[code])
    assert {name: getattr(received.header, name) for name in plain.header.__struct_fields__} == {
        name: getattr(plain.header, name) for name in plain.header.__struct_fields__
    }
    found, expected = signed_values(received), signed_fields(code, frame.header)
    is_plain = "m" not in HOT[code] or HOT[code]["m"] == "false"  # msgspec takes more for true than Java does
    assert found == (expected if is_plain else None)
    assert verdict(one_user()[1], received) == "alice"


@given(
    st.sampled_from([Code.SEND_MESSAGE_V2, Code.PULL_MESSAGE]),
    st.dictionaries(st.sampled_from([*"abdefhijklmn", "queueId", "ns", "zz", "maxMsgBytes", ACCESS_KEY]), ODD_TEXTS),
    st.booleans(),
)
def test_what_is_believed_is_what_was_signed(code: Code, changed: dict[str, str], signs_changed: bool) -> None:
    """Whatever was written on the way: a request that passes means what its signature covers."""
    _, validator = one_user()
    good = HOT[code]
    signed_part = {**good, **changed, ACCESS_KEY: "alice"} if signs_changed else {**good, ACCESS_KEY: "alice"}
    sent = {**good, ACCESS_KEY: "alice", **changed, SIGNATURE: sign(signed_part, b"body", secret_of("alice"))}
    try:
        received = decode_signed(request(code, sent, b"body").frame)
    except (HeaderFieldError, UndecodableHeaderError):
        return
    short, plain = verdict(validator, received), plain_verdict(validator, received)
    assert verdict(validator, received) == short, "and once more, with the key remembered"
    if short != plain:  # numbers that were written in another way, and mean the same
        assert short == "alice"
        meant = {**header_to_ext(received.header), ACCESS_KEY: "alice"}
        meant.pop(SIGNATURE, None)
        assert verify({**meant, SIGNATURE: sent[SIGNATURE]}, b"body", secret_of("alice"))


def test_hot_requests_with_anything_odd_are_decoded_as_ever() -> None:
    good = request(Code.PULL_MESSAGE, pull_fields("t", "g"), user="alice").frame.header
    for old, new in (
        (b'"topic":"t"', b'"topic":"t","odd":"1"'),
        (b'"code":11', b'"code": 11'),
        (b'"extFields":{', b'"extFields":{"AccessKey":7,'),
    ):
        assert old in good
        assert signed_values(decode_signed(Frame(SerializeType.JSON, good.replace(old, new)))) is None
    response = decode_signed(Frame(SerializeType.JSON, good.replace(b'"flag":0', b'"flag":1')))
    assert response.is_response and signed_values(response) is None
    with pytest.raises(HeaderFieldError):
        decode_signed(Frame(SerializeType.JSON, good.replace(b'"topic":"t"', b'"tropic":"t"')))
    with pytest.raises(UndecodableHeaderError):
        decode_signed(Frame(SerializeType.JSON, b'{"code":11,"extFields":['))


def test_keys_are_forgotten_when_users_change() -> None:
    book, validator = one_user()
    add_user(book, "root", is_super=True)
    good = request(Code.PULL_MESSAGE, pull_fields("t", "g"), user="alice")
    assert [verdict(validator, good) for _ in range(3)] == ["alice"] * 3
    book.update_user("alice", Secret("another"), None, None)
    assert verdict(validator, good) == "check signature failed."
    again = request(Code.PULL_MESSAGE, pull_fields("t", "g"), user="alice", secret="another")
    assert [verdict(validator, again) for _ in range(3)] == ["alice"] * 3
    book.update_user("alice", None, None, UserStatus.DISABLE)
    assert verdict(validator, again) == "User:alice is disabled."
    book.delete_user("alice")
    assert verdict(validator, again) == "User:alice is not found."


@with_core
@given(st.dictionaries(names, texts), st.booleans(), st.binary(max_size=70), st.text(min_size=1, max_size=70))
def test_the_core_finds_the_signers_that_python_finds(
    ext: dict[str, str], is_signed: bool, body: bytes, secret: str
) -> None:
    assert core is not None
    keys = core.SigningKeys()
    keys.add("alice", secret.encode("utf-8", "replace"))
    fields = {**ext, ACCESS_KEY: "alice"}
    if is_signed:
        fields[SIGNATURE] = sign(fields, body, secret)
    header = request(Code.HEART_BEAT, fields).frame.header
    found = keys.signer(header, body)
    expected = "alice" if verify(fields, body, secret) else None
    assert found == expected or (found is None and any(not name.isascii() for name in fields))
    assert keys.signer(header, body + b"x") is None
    keys.clear()
    assert keys.signer(header, body) is None and len(keys) == 0


@with_core
def test_the_core_leaves_odd_headers_to_python() -> None:
    assert core is not None
    keys = core.SigningKeys()
    keys.add("alice", secret_of("alice").encode())
    good = request(Code.PULL_MESSAGE, {**pull_fields("t", "g"), "x": 'é\n"\u0001'}, user="alice").frame.header
    assert keys.signer(good, b"") == "alice"
    for old, new in (
        (b'"topic":"t"', b'"topic":"t","topic":"t"'),
        (b'"topic":"t"', b'"topic":t'),
        (b'"topic":"t"', b'"topic": "t"'),
        (b'"flag":0', b'"flag":0,"flag":0'),
        (b'"flag":0', b'"flag":0,"extFields":{"a":"b"}'),
        (b'"flag":0', b'"flaw":0'),
        (b"{", b"["),
        (b"}", b""),
    ):
        assert old in good
        assert keys.signer(good.replace(old, new), b"") is None
    for end in range(len(good)):
        assert keys.signer(good[:end], b"") is None
    assert keys.signer(good + b"\xff", b"") is None
    unique = {"_UNIQUE_KEY_QUERY": "true"}
    assert keys.signer(request(Code.HEART_BEAT, unique, user="alice").frame.header, b"") is None


@with_core
def test_headers_with_very_many_fields_are_left_to_python() -> None:
    """The core would sort them before anybody is known; Python has a limit for such headers."""
    assert core is not None
    keys = core.SigningKeys()
    keys.add("alice", secret_of("alice").encode())
    for count, signer in ((40, "alice"), (100, None)):
        fields = {**pull_fields("t", "g"), **{f"x{number}": "1" for number in range(count)}}
        assert keys.signer(request(Code.PULL_MESSAGE, fields, user="alice").frame.header, b"") == signer


def test_a_signature_does_not_cover_the_request_code_as_the_page_on_security_says() -> None:
    """RocketMQ's clients sign so. If this changes, docs/security.md (what signatures do not do) has to."""
    book = UserStore()
    add_user(book, "ops")
    allow(book, "ops", entry("Topic:orders", "Get", "Delete"))
    guard = guard_of(book)
    look = request(Code.GET_TOPIC_CONFIG, {"topic": "orders"}, user="ops")
    replayed = request(Code.DELETE_TOPIC_IN_BROKER, dict(look.ext()))
    assert guard.admit(look, HERE).name == guard.admit(replayed, HERE).name == "ops"
    allow(book, "ops", entry("Topic:orders", "Get"))
    assert guard.admit(look, HERE).name == "ops"
    with pytest.raises(AccessDeniedError, match="no permission"):
        guard.admit(replayed, HERE)
