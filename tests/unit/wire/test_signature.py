from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from pyromq.wire.signature import SIGNATURE, sign, signed_content, unsigned_fields, verify

FIELDS = {"AccessKey": "ak", "topic": "TopicTest"}
SECRET = "sk12345678"


def signed(fields: dict[str, str], body: bytes | None = None, **options: frozenset[str]) -> dict[str, str | None]:
    return {**fields, SIGNATURE: sign(fields, body, SECRET, **options)}


def test_the_content_is_the_values_in_order_of_their_names_then_the_body() -> None:
    fields = {"b": "2", "a": "1", "Z": "0", "Signature": "x", "none": None}
    assert signed_content(fields, b"\xffbody") == b"012\xffbody"
    assert signed_content(fields, None) == b"012"


def test_the_signature_is_an_hmac_over_the_content() -> None:
    expected = base64.b64encode(hmac.new(SECRET.encode(), b"akTopicTestbody", hashlib.sha1).digest()).decode()
    assert sign(FIELDS, b"body", SECRET) == expected


def test_what_was_signed_verifies() -> None:
    assert verify(signed(FIELDS, b"body"), b"body", SECRET)


@pytest.mark.parametrize(
    "field, value", [("topic", "TopicTesT"), ("AccessKey", "other"), ("extra", "1"), (SIGNATURE, "é")]
)
def test_a_changed_field_does_not_verify(field: str, value: str) -> None:
    assert not verify({**signed(FIELDS), field: value}, None, SECRET)


def test_another_body_key_or_no_signature_does_not_verify() -> None:
    assert not verify(signed(FIELDS, b"body"), b"bodY", SECRET)
    assert not verify(signed(FIELDS), None, "other")
    assert not verify({**FIELDS}, None, SECRET)
    assert not verify({**FIELDS, SIGNATURE: None}, None, SECRET)
    assert not verify({**FIELDS, SIGNATURE: sign(FIELDS, None, SECRET).rstrip("=")}, None, SECRET)


def test_old_clients_leave_the_mark_of_a_unique_key_query_out() -> None:
    fields = {**FIELDS, "_UNIQUE_KEY_QUERY": "true"}
    of_old_client = {**fields, SIGNATURE: sign(FIELDS, None, SECRET)}
    assert verify(of_old_client, None, SECRET, exclude=unsigned_fields(399))
    assert not verify(of_old_client, None, SECRET, exclude=unsigned_fields(400))
    assert verify(signed(fields), None, SECRET, exclude=unsigned_fields(401))


def test_names_order_by_utf16_units_as_in_java() -> None:
    assert signed_content({"\uffff": "2", "\U00010000": "1"}, None) == b"12"


def test_values_are_signed_as_utf8_and_half_surrogates_do_no_harm() -> None:
    assert signed_content({"a": "é"}, None) == "é".encode()
    assert verify(signed({"a": "\ud800"}), None, SECRET)
