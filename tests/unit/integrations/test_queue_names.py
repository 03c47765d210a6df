"""Names of queues, tasks and ids become names that RocketMQ takes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pyromq.integrations.queue_names import group_of, keys_of, tag_of, topic_of
from pyromq.model.message import Message
from pyromq.model.names import validate_group, validate_topic

ANY_NAME = st.text(min_size=1, max_size=300)


def test_a_name_that_may_be_a_topic_stays() -> None:
    assert topic_of("celery") == "celery"
    assert topic_of("high-priority_2") == "high-priority_2"
    assert group_of("celery", "mail") == "celery-mail"


def test_other_names_are_told_apart_by_a_digest() -> None:
    found = {topic_of(name) for name in ("a.b", "a@b", "a b", "a-b", "a%b", "a|b")}
    assert len(found) == 6 and "a-b" in found


@given(ANY_NAME, ANY_NAME)
def test_every_name_is_allowed_and_no_two_are_one(one: str, other: str) -> None:
    assert validate_topic(topic_of(one)) == topic_of(one)
    assert validate_group(group_of("celery", one)) == group_of("celery", one)
    assert (topic_of(one) == topic_of(other)) == (one == other)


@given(st.one_of(ANY_NAME, st.none(), st.integers()), st.one_of(ANY_NAME, st.none(), st.integers()))
def test_tags_and_keys_are_what_a_message_takes(task: object, task_id: object) -> None:
    message = Message("topic", b"1", tags=tag_of(task), keys=keys_of(task_id))
    assert message.tags in (task, "") and message.keys in ((task_id,), ())


def test_what_can_be_no_tag_or_key_is_left_out() -> None:
    assert tag_of("shop.tasks.send") == "shop.tasks.send"
    assert tag_of("a || b") == tag_of("\x01") == tag_of(None) == tag_of("x" * 256) == tag_of("\ud800") == ""
    assert keys_of("one", "", None, "two words", 7, "tab\there") == ("one",)
