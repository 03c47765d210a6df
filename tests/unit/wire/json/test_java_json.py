from __future__ import annotations

import random
from enum import Enum, IntEnum, IntFlag
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.errors import LocalProtocolError, RemoteProtocolError
from pyromq.model.queue import QueueId
from pyromq.wire.json.java_json import (
    DEPTH_MAX,
    MalformedJsonError,
    ObjectKey,
    UnexpectedJsonError,
    UnwritableJsonError,
    decode,
    dumps,
    dumps_pretty,
    dumps_strict,
    parse,
    with_text_keys,
)


class Colour(Enum):
    RED = 7


class Level(IntEnum):
    HIGH = 3


class Bits(IntFlag):
    A = 1
    B = 2


class Inner(msgspec.Struct, frozen=True, rename="camel"):
    some_count: int
    maybe_text: str | None = None


class Outer(msgspec.Struct, frozen=True, rename="camel"):
    queue_table: dict[QueueId, Inner]
    addr_table: dict[int, str]
    absent: int = 5


# --- reading -------------------------------------------------------------------------------------------------------


def test_bare_integer_keys_become_integers_and_quoted_ones_stay_text() -> None:
    assert parse(b'{0:"a",-12:"b","3":"c"}') == {0: "a", -12: "b", "3": "c"}


PLAIN = st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.text(max_size=8)
KEYS = st.dictionaries(st.text(max_size=6), PLAIN, min_size=1, max_size=3).map(ObjectKey)
TABLES = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text('a{}:\\",', max_size=6), inner, max_size=3)
    ),
    max_leaves=12,
)


def with_object_keys(value: Any) -> Any:
    """The value with the keys that ``with_text_keys`` wrote as text."""
    if isinstance(value, list):
        return [with_object_keys(each) for each in value]
    if isinstance(value, dict):
        return {_object_key(key): with_object_keys(inner) for key, inner in value.items()}
    return value


def _object_key(key: Any) -> Any:
    try:
        fields = parse(key) if isinstance(key, str) else None
    except MalformedJsonError:
        return key
    return ObjectKey(fields) if isinstance(fields, dict) and fields else key


@given(TABLES)
def test_object_keys_as_text_say_the_same(value: Any) -> None:
    text = dumps(value, sort=False)
    assert with_object_keys(parse(with_text_keys(text))) == with_object_keys(parse(text))


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":1}',
        b'{"x":["a{",":1}:"],"y":{{"k":[1]}:2}}',
        b'{"x":"{{\\"a\\":1}:2}","y":{{"k":{}}:2}}',
        b'{{"a":1,}:2}',
        b'{{"a" :1}:2}',
        b"{{}:2}",
        b'{{"a":1},"b":2}',
        b'{{"a":1',
        b"",
    ],
)
def test_what_is_no_plain_object_key_stays_as_it_is(text: bytes) -> None:
    assert with_text_keys(text) == text


@given(st.text('ab"{}:,\\ 1[]', max_size=40))
def test_malformed_text_is_as_malformed_with_text_keys(text: str) -> None:
    outcomes = []
    for each in (text.encode(), with_text_keys(text.encode())):
        try:
            outcomes.append(with_object_keys(parse(each)))
        except MalformedJsonError:
            outcomes.append(MalformedJsonError)
    assert outcomes[0] == outcomes[1]


def test_an_object_key_becomes_a_hashable_mapping() -> None:
    value = parse('{{"brokerName":"b","queueId":0,"topic":"t"}:5}')
    key = ObjectKey({"topic": "t", "queueId": 0, "brokerName": "b"})
    assert value == {key: 5}
    assert next(iter(value))["queueId"] == 0
    assert len(key) == 3 and list(key) == ["topic", "queueId", "brokerName"]
    assert repr(key).startswith("ObjectKey({'topic'")


def test_object_keys_may_hold_lists_objects_and_further_object_keys() -> None:
    value = parse('{{"a":[1,{"b":2}],{"c":3}:4}:{0:1}}')
    assert value == {ObjectKey({"a": [1, {"b": 2}], ObjectKey({"c": 3}): 4}): {0: 1}}


def test_whitespace_may_stand_anywhere_between_tokens() -> None:
    assert parse(' \t{ 0 :\r\n[ 1 , { "a" : null } ] , 1 : { } }\n') == {0: [1, {"a": None}], 1: {}}


def test_the_last_of_equal_keys_wins_in_either_form() -> None:
    assert parse('{"a":1,"a":2}') == {"a": 2}
    assert parse("{0:1,0:2}") == {0: 2}


def test_a_reference_is_left_as_it_is() -> None:
    assert parse('{0:{"$ref":"$.x[0]"}}') == {0: {"$ref": "$.x[0]"}}


def test_escapes_mean_the_same_beside_bare_keys() -> None:
    assert parse(r'{0:"\u00e9\ud83d\ude00\n\/\"\\"}') == {0: 'é😀\n/"\\'}


@pytest.mark.parametrize(
    "text",
    [
        "", "   ", "{", "[", "{0", "{0:", "{0:1", "{0:1,", "{0:1,}", "[1,]", "[,1]", "{,}", "{0 1}", "{0:1 1:2}",
        "{0:1}}", "{0:1} 2", "{1.5:1}", "{1e2:1}", "{true:1}", "{null:1}", "{[1]:1}", "{a:1}", "{'a':1}", "{0:01}",
        "{0:+1}", "{0:.5}", "{0:1.2.3}", "{0:-}", "{0:nul}", "{0:NaN}", '{0:"a}', '{0:"\\x"}', '{0:"\\ud800"}',
        '{0:"a\nb"}', "{0:1e999}", "{0:\x00}", "{{}1}", "{{}:}", "{{:1}", ":", ",", "]", "}", "{0:]", "[}", "tru",
        '"\ud800"', "{0:" + "9" * 5000 + "}",
    ],
)  # fmt: skip
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(MalformedJsonError):
        parse(text)


@pytest.mark.parametrize("data", [b"\xff", b'"\xff"', b'{0:"\xc3\x28"}', b"\xef\xbb\xbf{}", b'{"a":"\xed\xa0\x80"}'])
def test_bytes_that_are_not_utf8_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedJsonError):
        parse(data)


@pytest.mark.parametrize("opening, closing", [("[", "]"), ('{"a":', "}"), ("{0:", "}"), ("{", ":0}")])
def test_depth_is_bounded_alike_in_both_forms(opening: str, closing: str) -> None:
    allowed = opening * (DEPTH_MAX - 1) + "{}" + closing * (DEPTH_MAX - 1)
    parse(allowed)
    for depth in (DEPTH_MAX, 500, 100_000):
        with pytest.raises(MalformedJsonError):
            parse(opening * depth + "{}" + closing * depth)
        with pytest.raises(MalformedJsonError):
            parse(opening * depth)


def test_many_containers_side_by_side_are_not_deep() -> None:
    assert len(parse("[" + ",".join(["[]"] * 1000) + "]")) == 1000


def test_size_is_bounded() -> None:
    assert parse(b"[1,2]", bytes_max=5) == [1, 2]
    with pytest.raises(MalformedJsonError, match="at most 5"):
        parse(b"[1,23]", bytes_max=5)


def test_an_error_tells_its_place() -> None:
    with pytest.raises(MalformedJsonError) as caught:
        parse("{0:1,1;2}")
    assert caught.value.position == 6


def test_decoding_takes_text_for_numbers_and_null_for_absence() -> None:
    text = b'{"queueTable":{{"brokerName":"b","queueId":"1","topic":"t"}:{"someCount":"4","maybeText":null}},"addrTable":{"0":"x"},"absent":null,"unknown":[]}'  # noqa: E501
    assert decode(text, Outer) == Outer({QueueId("t", "b", 1): Inner(4)}, {0: "x"})


@pytest.mark.parametrize(
    "text", [b"[]", b"null", b"{}", b'{"addrTable":{},"queueTable":{1:{}}}', b'{"addrTable":{"x":"y"},"queueTable":{}}']
)
def test_decoding_the_wrong_shape_is_a_typed_error(text: bytes) -> None:
    with pytest.raises(UnexpectedJsonError):
        decode(text, Outer)


# --- writing -------------------------------------------------------------------------------------------------------


def test_writing_is_compact_sorted_and_without_nulls() -> None:
    assert dumps({"b": [1, None, 2.5], "a": {"y": None, "x": True}}) == b'{"a":{"x":true},"b":[1,null,2.5]}'


def test_unsorted_writing_keeps_the_order_given() -> None:
    assert dumps({"b": 1, "a": 2, 1: 3, 0: 4}, sort=False) == b'{"b":1,"a":2,1:3,0:4}'


def test_integer_keys_are_bare_and_in_order_of_value() -> None:
    assert dumps({10: "c", 9: "b", -1: "a", "z": 0}) == b'{"z":0,-1:"a",9:"b",10:"c"}'


def test_structs_are_written_under_their_wire_names_also_as_keys() -> None:
    body = Outer({QueueId("t", "b", 0): Inner(1)}, {0: "x"})
    expected = (
        b'{"absent":5,"addrTable":{0:"x"},"queueTable":{{"brokerName":"b","queueId":0,"topic":"t"}:{"someCount":1}}}'
    )
    assert dumps(body) == expected
    assert decode(expected, Outer) == body


def test_enums_are_written_by_name_and_flags_as_numbers() -> None:
    value = {"c": Colour.RED, "l": Level.HIGH, "f": Bits.A | Bits.B, Colour.RED: 1}
    assert dumps(value) == b'{"RED":1,"c":"RED","f":3,"l":"HIGH"}'


def test_sets_are_written_sorted() -> None:
    assert dumps([{"b", "a"}, frozenset((10, 9))]) == b'[["a","b"],[9,10]]'


def test_text_is_written_unescaped_unless_it_must_be() -> None:
    assert dumps('é/😀"\\\n\x01') == '"é/😀\\"\\\\\\n\\u0001"'.encode()


def test_the_strict_form_is_ordinary_json_in_ascii() -> None:
    value = {0: "a/b", "é😀": "\x7f", QueueId("t/é", "b", 0): 1}
    text = dumps_strict(value)
    assert text == (
        rb'{"\u00E9\uD83D\uDE00":"\u007F","0":"a\/b","{\"brokerName\":\"b\",\"queueId\":0,\"topic\":\"t\/\u00E9\"}":1}'
    )
    assert msgspec.json.decode(text)["0"] == "a/b"


def test_the_pretty_form_indents_by_tabs_and_keeps_integer_keys_bare() -> None:
    value = {"offsetTable": {"t@g": {1: 98, 0: 120}}, "groups": ["a", "b"], "empty": {}, "none": []}
    assert dumps_pretty(value).decode() == (
        '{\n\t"empty":{},\n\t"groups":[\n\t\t"a",\n\t\t"b"\n\t],\n\t"none":[],\n\t"offsetTable":{\n\t\t"t@g":{\n'
        "\t\t\t0:120,\n\t\t\t1:98\n\t\t}\n\t}\n}"
    )
    assert parse(dumps_pretty(value)) == value


def test_object_keys_stay_on_one_line_in_the_pretty_form() -> None:
    text = dumps_pretty({QueueId("t", "b", 0): 5})
    assert text == b'{\n\t{"brokerName":"b","queueId":0,"topic":"t"}:5\n}'


def _endless() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


def _keys_in_keys() -> Any:
    key: Any = 0
    for _ in range(DEPTH_MAX + 1):
        key = ObjectKey({key: 0})
    return key


@pytest.mark.parametrize(
    "value", [b"bytes", float("nan"), float("inf"), object(), {1.5: 0}, {True: 0}, {None: 0}, {(1,): 0}, "\ud800"]
)
def test_values_without_a_form_are_refused(value: Any) -> None:
    with pytest.raises(UnwritableJsonError):
        dumps([value])


@pytest.mark.parametrize("value", [_endless(), _keys_in_keys()], ids=["list in itself", "keys in keys"])
def test_values_without_an_end_are_refused(value: Any) -> None:
    with pytest.raises(LocalProtocolError):
        dumps(value)


# --- both ----------------------------------------------------------------------------------------------------------

scalars = st.one_of(
    st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), st.text()
)
object_keys = st.dictionaries(st.text(), st.one_of(scalars, st.lists(scalars, max_size=2)), max_size=3).map(ObjectKey)
keys = st.one_of(st.text(), st.integers(-(2**63), 2**63 - 1), object_keys)
values = st.recursive(
    scalars, lambda inner: st.one_of(st.lists(st.one_of(inner, st.none())), st.dictionaries(keys, inner)), max_leaves=12
)


@given(values, st.booleans())
@settings(max_examples=300)
def test_what_was_written_reads_the_same(value: Any, sort: bool) -> None:
    assert parse(dumps(value, sort=sort)) == value
    assert parse(dumps_pretty(value)) == value


@given(values)
@settings(max_examples=150)
def test_the_strict_form_is_ascii_that_any_parser_reads(value: Any) -> None:
    text = dumps_strict(value)
    assert text.isascii()
    msgspec.json.decode(text)


@given(
    st.recursive(scalars, lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)), max_leaves=12)
)
@settings(max_examples=150)
def test_the_own_parser_agrees_with_msgspec_on_ordinary_json(value: Any) -> None:
    text = msgspec.json.encode(value)
    assert parse(b"{0:" + text + b"}") == {0: parse(text)}


def test_garbage_gives_a_value_or_a_typed_error() -> None:
    seed = 20_240_607
    print(f"seed={seed}")
    rng = random.Random(seed)
    sample = dumps({QueueId("t", "b\u00e9", 3): [1, -2.5e3, None, "x\n"], 0: {"a": True, "$ref": "$.x"}})
    pieces = [bytes([byte]) for byte in b'{}[]:,"\\-.0123456789eEtrufalsn \t\x00\xff\xc3']
    pieces += [b'{"', b'":', b"{0:", b"{{", b"null", b"\\u", b"\\ud800", b"\xed\xa0\x80", b"1e999"]
    refused = 0
    for case in range(60_000):
        if case % 3 == 0:
            data = rng.randbytes(rng.randrange(40))
        elif case % 3 == 1:
            data = b"".join(rng.choices(pieces, k=rng.randrange(30)))
        else:
            spot = rng.randrange(len(sample))
            data = sample[:spot] + rng.choice(pieces) + sample[spot + rng.randrange(4) :]
        try:
            parse(data)
        except RemoteProtocolError:
            refused += 1
    assert 30_000 < refused < 60_000


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ({3: 1, -1: 2, 1 << 40: 1 << 70}, b"{-1:2,3:1,1099511627776:1180591620717411303424}"),
        ({1: True, 0: 2}, b"{0:2,1:true}"),
        ({"1": 2, "0": 3}, b'{"0":3,"1":2}'),
        ({0: "7"}, b'{0:"7"}'),
        ({}, b"{}"),
    ],
    ids=["numbers", "a flag among them", "keys of text", "values of text", "nothing"],
)
def test_maps_of_numbers_are_written_as_other_maps_are(table: dict[Any, Any], text: bytes) -> None:
    assert dumps(table) == text
    assert dumps({"offsetTable": {"orders@readers": table}}) == b'{"offsetTable":{"orders@readers":%b}}' % text
    assert dumps({2: 1, 1: 2}, sort=False) == b"{2:1,1:2}"
