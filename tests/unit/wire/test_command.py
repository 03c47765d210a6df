from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.errors import LocalProtocolError, RemoteProtocolError
from pyromq.wire.codes import Language, ResponseCode
from pyromq.wire.command import (
    Command,
    decode_command,
    encode_command,
    encode_request,
    encode_response,
    encode_response_head,
)
from pyromq.wire.frame import Frame, FrameDecoder, SerializeType
from pyromq.wire.header_errors import UndecodableHeaderError
from pyromq.wire.received import decode_received

JSON, BINARY = SerializeType.JSON, SerializeType.ROCKETMQ
BOTH = pytest.mark.parametrize("serialize_type", [JSON, BINARY])
deterministic = settings(max_examples=150)

int16 = st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
texts = st.text(min_size=1, max_size=20)
commands = st.builds(
    Command,
    code=int16,
    correlation_id=int32,
    flag=int32,
    language=st.sampled_from(Language),
    version=int16,
    remark=st.none() | texts,
    ext=st.dictionaries(texts, texts, max_size=5),
    body=st.binary(max_size=20),
    serialize_type=st.sampled_from(SerializeType),
)


def frame_of(data: bytes) -> Frame:
    (frame,) = FrameDecoder().feed(data)
    return frame


def json_frame(text: str | bytes, body: bytes = b"") -> Frame:
    return Frame(JSON, text.encode() if isinstance(text, str) else text, body)


@deterministic
@given(commands)
def test_what_was_encoded_decodes_to_the_same(command: Command) -> None:
    assert decode_command(frame_of(encode_command(command))) == command


# --- JSON ---


def test_numbers_and_booleans_in_ext_become_strings_and_null_is_absent() -> None:
    frame = json_frame('{"code":310,"opaque":1,"extFields":{"e":3,"k":false,"m":true,"x":null,"f":1.5,"b":"t"}}')
    assert decode_command(frame).ext == {"e": "3", "k": "false", "m": "true", "f": "1.5", "b": "t"}


@pytest.mark.parametrize("ext", ["", ',"extFields":null', ',"extFields":{}'])
def test_ext_may_be_absent_null_or_empty(ext: str) -> None:
    frame = json_frame(f'{{"code":34,"opaque":1{ext}}}')
    assert decode_command(frame).ext == {}
    received = decode_received(frame)
    assert received.header is None
    assert received.ext() == {}


def test_unknown_keys_and_languages_are_no_errors() -> None:
    command = decode_command(json_frame('{"foo":[1,{"a":2}],"language":"KLINGON","code":34,"opaque":9}'))
    assert (command.code, command.correlation_id, command.language, command.version) == (34, 9, None, 0)


def test_a_language_may_be_a_number_too() -> None:
    assert decode_received(json_frame('{"code":34,"language":9}')).language is Language.GO
    assert decode_received(json_frame('{"code":34,"language":99}')).language is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        '{"opaque":1}',
        '{"code":null}',
        '{"code":"many"}',
        '{"code":3000000000}',
        '{"code":1,"opaque":99999999999}',
        '{"code":1,"flag":"x"}',
        '{"code":1}trailing',
        '{"code":1,"extFields":[]}',
        '{"code":1,"extFields":{"a":{}}}',
        '{"code":1,"extFields":{"a":["b"]}}',
        '{"code":1,"extFields":"text"}',
        '{"code":1,"remark":{}}',
        b'{"code":1,"remark":"\xff"}',
        b'{"code":1,"extFields":{"a":"\xff\xfe"}}',
        b'{"code":1,"extFields":{"a":"raw \x01 control"}}',
        '{"code":1,"extFields":{"a":"\\ud800"}}',
        '{"code":1,"deep":' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"code":1,"extFields":' + '{"a":' * 100_000 + "1" + "}" * 100_001,
        '{"code":' + "9" * 10_000 + "}",
    ],
)
def test_what_is_no_header_is_refused(text: str | bytes) -> None:
    with pytest.raises(UndecodableHeaderError) as caught:
        decode_command(json_frame(text))
    assert isinstance(caught.value, RemoteProtocolError)


def test_control_characters_are_escaped_and_other_text_is_not() -> None:
    data = encode_request(10, 1, {"properties": 'KEYS\x01ü"\x02'})
    assert '"properties":"KEYS\\u0001ü\\"\\u0002"'.encode() in data
    assert decode_command(frame_of(data)).ext == {"properties": 'KEYS\x01ü"\x02'}


def test_json_is_compact_with_keys_in_javas_order() -> None:
    data = encode_response(ResponseCode.SYSTEM_ERROR, 5, {"a": "b"}, remark="no", body=b"!")
    frame = frame_of(data)
    assert frame.header == (
        b'{"code":1,"extFields":{"a":"b"},"flag":1,"language":"PYTHON","opaque":5,"remark":"no",'
        b'"serializeTypeCurrentRPC":"JSON","version":479}'
    )
    assert frame.body == b"!"


@BOTH
def test_text_that_is_not_unicode_cannot_be_sent(serialize_type: SerializeType) -> None:
    for ext, remark in (({"a": "\ud800"}, None), ({}, "\ud800")):
        with pytest.raises(LocalProtocolError):
            encode_response(0, 1, ext, remark=remark, serialize_type=serialize_type)


def test_a_frame_larger_than_peers_accept_cannot_be_sent() -> None:
    with pytest.raises(LocalProtocolError, match="larger than"):
        encode_response(0, 1, body=bytes(1 << 24))
    with pytest.raises(LocalProtocolError, match="larger than"):
        encode_response_head(0, 1, body_size=1 << 24)
