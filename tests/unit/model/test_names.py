from __future__ import annotations

import pytest

from pyromq.errors import InvalidNameError
from pyromq.model.names import (
    DERIVED_TOPIC_CHARACTERS_MAX,
    GROUP_CHARACTERS_MAX,
    TOPIC_CHARACTERS_MAX,
    dead_letter_topic,
    pop_retry_topic,
    pop_retry_topic_v2,
    retry_topic,
    validate_group,
    validate_topic,
)

HOSTILE = [
    "../etc", "..", ".", "a.b", "a/b", "/abs", "a\\b", "C:", "nul\x00", "\x00", "line\n", "\nline", "tab\t", "a b",
    " a", "a ", "thé", "主题", "ａ", "٣", "a\u200b", "a\ud800", "*", "?", "<a>", "a:b", "a;b", "$(a)", "~", "a@b",
    "a#b", "a+b", "{a}",
]  # fmt: skip


@pytest.mark.parametrize(
    "name", ["TopicTest", "a", "_", "-", "%", "|", "A|b%c_d-9", "TBW102", "%RETRY%g", "MQ_INST_1%t"]
)
def test_ordinary_names_pass_unchanged(name: str) -> None:
    assert validate_topic(name) == name
    assert validate_group(name) == name


@pytest.mark.parametrize("name", HOSTILE)
def test_names_that_could_leave_their_folder_or_confuse_a_reader_are_refused(name: str) -> None:
    for validate in (validate_topic, validate_group):
        with pytest.raises(InvalidNameError) as caught:
            validate(name)
        assert caught.value.name == name
        assert caught.value.reason.startswith("only the characters")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_prefix_does_not_smuggle_a_bad_name_in(name: str) -> None:
    for derived in (retry_topic(name), dead_letter_topic(name)):
        if derived == pop_retry_topic_v2("a", "b"):
            continue
        with pytest.raises(InvalidNameError):
            validate_topic(derived)


def test_retry_topics_of_popping_groups_are_names_and_no_others_have_a_plus_sign() -> None:
    for name in (pop_retry_topic("billing", "orders"), pop_retry_topic_v2("billing", "orders")):
        assert validate_topic(name) == name
    for name in ("a+b", "%DLQ%a+b", "%RETRY%a/b+c"):
        with pytest.raises(InvalidNameError):
            validate_topic(name)
    with pytest.raises(InvalidNameError):
        validate_group("%RETRY%a+b")


@pytest.mark.parametrize("name", ["", " ", "\t\n", "\u3000"])
def test_blank_names_are_refused_as_blank(name: str) -> None:
    with pytest.raises(InvalidNameError, match="blank"):
        validate_topic(name)
    with pytest.raises(InvalidNameError, match="blank"):
        validate_group(name)


def test_a_topic_may_be_as_long_as_the_limit_and_no_longer() -> None:
    assert validate_topic("t" * TOPIC_CHARACTERS_MAX)
    with pytest.raises(InvalidNameError, match="at most 127"):
        validate_topic("t" * (TOPIC_CHARACTERS_MAX + 1))


def test_a_group_may_be_as_long_as_the_limit_and_no_longer() -> None:
    assert validate_group("g" * GROUP_CHARACTERS_MAX)
    with pytest.raises(InvalidNameError, match="at most 120"):
        validate_group("g" * (GROUP_CHARACTERS_MAX + 1))


def test_topics_derived_from_the_longest_group_are_allowed() -> None:
    group = "g" * GROUP_CHARACTERS_MAX
    assert validate_topic(retry_topic(group)) == "%RETRY%" + group
    assert validate_topic(dead_letter_topic(group)) == "%DLQ%" + group
    with pytest.raises(InvalidNameError):
        validate_topic(retry_topic("g" * DERIVED_TOPIC_CHARACTERS_MAX))


def test_an_error_shows_an_absurd_name_shortened_and_escaped() -> None:
    with pytest.raises(InvalidNameError) as caught:
        validate_topic("\x1b[2J" + "x" * 100_000)
    assert len(str(caught.value)) < 300
    assert "\x1b" not in str(caught.value)
