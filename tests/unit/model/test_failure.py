"""Failure stories as values: what is kept of them, within which limits, and that properties give them back."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.model import failure as names
from pyromq.model.failure import (
    CLASS_BYTES_MAX,
    FIRST_TEXT_BYTES_MAX,
    STORY_BYTES_MAX,
    STORY_NAMES,
    TEXT_BYTES_MAX,
    Failure,
    FailureStory,
    failure_from_text,
    printable,
    story_after,
    traceback_excerpt,
)
from pyromq.wire.property_text import join_items, split_items

SHORT_TEXT = st.text(st.characters(exclude_categories=()), max_size=40)
ANY_TEXT = st.builds(lambda text, times: text * times, SHORT_TEXT, st.sampled_from((1, 1, 1, 100)))

LINES = st.lists(SHORT_TEXT, max_size=60).map("\n    ".join)


@st.composite
def failures(draw: st.DrawFn) -> Failure:
    told = failure_from_text(draw(ANY_TEXT), draw(ANY_TEXT), draw(st.sampled_from(("", "abc123", "def456"))))
    return Failure(
        error_class=told.error_class,
        text=told.text,
        stack=told.stack,
        version=printable(draw(ANY_TEXT), 100),
        host=printable(draw(ANY_TEXT), 100),
        attempt=draw(st.integers(0, 2**31)),
        time_ms=draw(st.integers(0, 10**15)),
        traceback=traceback_excerpt(draw(ANY_TEXT) + draw(LINES), 1_500),
    )


def told_of(some: list[Failure]) -> FailureStory:
    story: FailureStory | None = None
    for each in some:
        story = story_after(story, each)
    assert story is not None
    return story


@settings(deadline=None)
@given(st.lists(failures(), min_size=1, max_size=5))
def test_properties_give_a_story_back(some: list[Failure]) -> None:
    story = told_of(some)
    text = join_items(story.properties().items())
    assert FailureStory.of(split_items(text)) == story
    assert set(story.properties()) <= set(STORY_NAMES)
    assert len(text.encode()) <= STORY_BYTES_MAX


@settings(deadline=None)
@given(ANY_TEXT, st.integers(3, 300))
def test_printable_text_is_one_line_within_its_bytes(text: str, bytes_max: int) -> None:
    shown = printable(text, bytes_max)
    assert shown.isprintable() and len(shown.encode()) <= bytes_max
    assert printable(shown, bytes_max) == shown


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(STORY_NAMES), ANY_TEXT))
def test_whatever_properties_say_a_story_is_within_its_limits(properties: dict[str, str]) -> None:
    story = FailureStory.of(properties)
    if story is not None:
        again = story_after(story, failure_from_text("E", "x" * 5_000))
        assert len(join_items(again.properties().items()).encode()) <= STORY_BYTES_MAX


def test_the_newest_and_the_first_are_kept_and_the_others_counted() -> None:
    some = [Failure(error_class=name, stack=name, attempt=n, time_ms=n) for n, name in enumerate("ABBB", 1)]
    story = told_of(some)
    assert (story.first.error_class, story.newest.error_class) == ("A", "B")
    assert (story.count, story.same, story.newest.attempt, story.first.time_ms) == (4, 3, 4, 1)
    back = story_after(story, some[0])
    assert (back.count, back.same) == (5, 1)


def test_what_separates_properties_cannot_be_in_a_story() -> None:
    story = told_of([failure_from_text("E\x01\x02", "a\x01b\x02c\nd\u2028e\ud800f\x00", "s\x02")])
    text = join_items(story.properties().items())
    assert text.count("\x01") == text.count("\x02") == len(story.properties())
    assert story.newest.text == "a b c d e f"


def test_long_texts_are_cut_between_characters() -> None:
    failure = failure_from_text("k" * 500, "ä" * 5_000, "s")
    assert len(failure.error_class.encode()) <= CLASS_BYTES_MAX
    assert len(failure.text.encode()) <= TEXT_BYTES_MAX and failure.text.endswith("ä…")
    story = told_of([failure, failure_from_text("F", "other", "t")])
    assert len(story.first.text.encode()) <= FIRST_TEXT_BYTES_MAX and story.first.text.endswith("ä…")


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {names.CLASS: "E"},
        {names.COUNT: "1"},
        {names.COUNT: "0", names.SAME: "1"},
        {names.COUNT: "-1", names.SAME: "1"},
        {names.COUNT: "x", names.SAME: "1"},
        {names.COUNT: "١", names.SAME: "1"},
        {names.COUNT: "9" * 5_000, names.SAME: "1"},
    ],
)
def test_properties_of_applications_are_no_story(properties: dict[str, str]) -> None:
    assert FailureStory.of(properties) is None


def test_a_failure_without_a_stack_is_known_by_its_text_without_numbers() -> None:
    one, other = (
        failure_from_text("Dead", "order 17 of 0xdeadbeef is gone"),
        failure_from_text("Dead", "order 18 of 0x1 is gone"),
    )
    assert one.error == other.error
    assert failure_from_text("Dead", "no such customer").error != one.error
    assert failure_from_text("Retry", "order 17 of 0xdeadbeef is gone").error != one.error


@pytest.mark.parametrize(
    ("name", "is_called"),
    [
        ("billing.errors.CardDeclined", True),
        ("CardDeclined", True),
        ("errors.CardDeclined", True),
        ("abc", True),
        ("Declined", False),
        ("", False),
        ("carddeclined", False),
    ],
)
def test_a_failure_is_called_by_class_or_hash(name: str, is_called: bool) -> None:
    assert Failure(error_class="billing.errors.CardDeclined", stack="abc").is_called(name) is is_called
    assert not Failure(error_class="").is_called("")


def test_a_traceback_keeps_its_last_lines_and_their_indentation() -> None:
    text = "\n".join(f'  File "shop.py", line {line}, in pay\n    pay("C:\\\\new")' for line in range(40))
    excerpt = traceback_excerpt(text, 200)
    assert excerpt.splitlines()[0] == "…" and excerpt.splitlines()[-1] == '    pay("C:\\\\new")'
    assert '  File "shop.py", line 39, in pay' in excerpt and "line 9," not in excerpt
    story = FailureStory.begun_by(Failure(error_class="ValueError", time_ms=1, traceback=excerpt))
    written = story.properties()[names.TRACEBACK]
    assert "\n" not in written and len(written.encode()) <= 200
    assert FailureStory.of(story.properties()) == story
    assert names.TRACEBACK not in story.properties(with_traceback=False)
    assert traceback_excerpt(text, 0) == traceback_excerpt("", 200) == traceback_excerpt("\n \n", 200) == ""


def test_a_traceback_takes_the_room_that_the_rest_leaves() -> None:
    long = "x" * 5_000
    failure = failure_from_text("é" * 500, long)
    lines = "\n".join(f"  line {line} of a long traceback" for line in range(500))
    story = FailureStory.begun_by(msgspec.structs.replace(failure, traceback=lines, version="v" * 100, host="h" * 100))
    other = story.followed_by(msgspec.structs.replace(story.newest, stack="other", time_ms=7))
    for each in (story, other):
        written = each.properties()
        assert STORY_BYTES_MAX - 100 < len(join_items(written.items()).encode()) <= STORY_BYTES_MAX
        assert written[names.TEXT] == failure.text and written[names.TRACEBACK].endswith("line 499 of a long traceback")
    assert not other.first.traceback, "of the first failure less is kept"


def test_a_line_of_a_traceback_cannot_fill_it() -> None:
    excerpt = traceback_excerpt(f'  File "a.py", line 1, in f\nValueError: {"x" * 9_000}\x01', 1_000)
    assert excerpt.startswith('  File "a.py"') and excerpt.endswith("x…") and len(excerpt) < 300
