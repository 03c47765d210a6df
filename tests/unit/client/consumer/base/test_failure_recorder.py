"""What is noted on failed messages, and that nothing that goes wrong with it is raised."""

from __future__ import annotations

from typing import Any

import pytest

from pyromq.client.consumer.base import failure_recorder
from pyromq.client.consumer.base.failure_recorder import FailureRecorder
from pyromq.client.consumer.rules.failure_capture import MASK_FAILED, RETURNED_RETRY, TIMED_OUT
from pyromq.model.failure import FailureStory
from pyromq.testing import ManualClock
from tests.unit.received import received

NOW_MS = 1_700_000_000_000


def told(message: Any) -> FailureStory:
    story = message.failure_story
    assert story is not None
    return story  # type: ignore[no-any-return]


def test_the_attempts_of_a_message_here_add_up() -> None:
    clock = ManualClock(NOW_MS)
    recorder, message = FailureRecorder(clock, version="7"), received()
    recorder.raised([message], ValueError("a"))
    again = message.after_failure()
    clock.advance_ms(1_000)
    recorder.timed_out([again])
    story = told(again)
    assert (story.first.error_class, story.first.attempt, story.first.time_ms) == ("ValueError", 1, NOW_MS)
    assert (story.newest.error_class, story.newest.attempt, story.newest.time_ms) == (TIMED_OUT, 2, NOW_MS + 1_000)
    assert (story.newest.version, story.count, story.same) == ("7", 2, 1)
    assert "consume_timeout_ms" in story.newest.text
    recorder.returned_retry([again])
    assert told(again).newest.error_class == RETURNED_RETRY


def test_what_was_told_before_goes_on() -> None:
    recorder, first = FailureRecorder(ManualClock(NOW_MS)), received()
    recorder.raised([first], ValueError("a"))
    stored = received(**told(first).properties())
    recorder.raised([stored], ValueError("a"))
    assert (told(stored).count, told(stored).same, told(stored).first) == (2, 2, told(first).first)


def test_each_message_that_cannot_be_decoded_has_its_reason() -> None:
    recorder, batch = FailureRecorder(ManualClock()), [received(), received(), received()]
    recorder.reasons(batch, ValueError("x"), {0: "no id", 2: "no name"})
    assert [told(message).newest.text for message in (batch[0], batch[2])] == ["no id", "no name"]
    assert batch[1].failure_story is None


def test_a_mask_is_used_for_all_that_is_told() -> None:
    recorder = FailureRecorder(ManualClock(), [lambda text: text.upper()])
    message = received()
    recorder.said([message], "rejected", "no way")
    assert told(message).newest.text == "NO WAY" and recorder.mask("x") == "X"
    recorder.said([message], "rejected", "")
    assert told(message).newest.text == ""
    broken = FailureRecorder(ManualClock(), [lambda text: 1 / 0])  # type: ignore[list-item, return-value]
    broken.raised([message], ValueError("secret"))
    assert told(message).newest.text == MASK_FAILED


def test_a_mistake_of_ours_costs_the_story_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> Any:
        raise RuntimeError("a mistake")

    monkeypatch.setattr(failure_recorder, "raised_of", broken)
    monkeypatch.setattr(failure_recorder, "failure_from_text", broken)
    recorder, message = FailureRecorder(ManualClock()), received()
    recorder.raised([message], ValueError("x"))
    recorder.said([message], "rejected", "x")
    recorder.raised([], ValueError("x"))
    assert message.failure_story is None and "goes back without" in caplog.text


def test_a_teller_that_is_off_tells_nothing() -> None:
    recorder, message = FailureRecorder(ManualClock(), is_on=False), received()
    recorder.raised([message], ValueError("x"))
    recorder.returned_retry([message])
    recorder.reasons([message], ValueError("x"), {0: "y"})
    assert message.failure_story is None


def test_the_environment_names_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYROMQ_CODE_VERSION", "from outside\x01")
    message = received()
    FailureRecorder(ManualClock()).raised([message], ValueError("x"))
    assert told(message).newest.version == "from outside"
    FailureRecorder(ManualClock(), version="named").raised([message], ValueError("x"))
    assert told(message).newest.version == "named"


def test_a_traceback_is_kept_where_it_is_asked_for_and_goes_with_the_next_failure() -> None:
    def listener() -> None:
        raise ValueError("card 4111")

    def fail(recorder: FailureRecorder, message: Any) -> str:
        try:
            listener()
        except ValueError as error:
            recorder.raised([message], error)
        return told(message).newest.traceback

    message = received()
    assert fail(FailureRecorder(ManualClock()), message) == ""
    keeping = FailureRecorder(ManualClock(), [lambda text: text.replace("4111", "****")], traceback_bytes=500)
    traceback = fail(keeping, message)
    assert "in listener" in traceback and traceback.endswith("ValueError: card ****")
    keeping.timed_out([message])
    assert told(message).newest.traceback == ""
