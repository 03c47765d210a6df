"""What exceptions say of themselves, however they behave."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest

from pyromq.client.consumer.base.listeners import as_failure
from pyromq.client.consumer.rules.failure_capture import (
    FRAMES_MAX,
    FRAMES_SHOWN,
    MASK_FAILED,
    RAW_CHARACTERS_MAX,
    class_name,
    masked,
    raised_of,
    stack_hash,
    text_of,
    traceback_of,
)
from pyromq.model.failure import TEXT_BYTES_MAX


def raised_by(function: Callable[..., Any], *arguments: Any) -> BaseException:
    try:
        function(*arguments)
    except BaseException as error:
        assert error.__traceback__ is not None
        return error.with_traceback(error.__traceback__.tb_next)  # without this function
    raise AssertionError("it did not raise")


def compiled(text: str, name: str = "shop.billing") -> dict[str, Any]:
    module: dict[str, Any] = {"__name__": name}
    exec(compile(text, f"{name}.py", "exec"), module)
    return module


BILLING = """
def pay(order):
    charge(order)

def charge(order):
    raise ValueError(f"order {order} is bad")
"""


class DeclinedError(Exception):
    pass


class HostileError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text for you")

    __repr__ = __str__


class OddTextError(Exception):
    def __str__(self) -> str:
        return Shouting("odd")


class Shouting(str):
    def __getitem__(self, place: Any) -> str:
        raise RuntimeError("no part of it")


class Stop(BaseException):
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def test_the_class_has_its_module_but_for_python_itself() -> None:
    assert class_name(ValueError) == "ValueError"
    assert class_name(DeclinedError).endswith("test_failure_capture.DeclinedError")
    assert class_name(asyncio.CancelledError) == "asyncio.exceptions.CancelledError"

    class LocalError(Exception):
        pass

    assert "<locals>" not in class_name(LocalError)


def test_the_hash_is_the_same_after_lines_moved_and_for_other_values() -> None:
    once = raised_by(compiled(BILLING)["pay"], 17)
    moved = raised_by(compiled("import os\n\n# a comment\n" + BILLING)["pay"], 18)
    assert stack_hash(once) == stack_hash(moved)
    assert raised_of(once).error_class == "ValueError" and len(stack_hash(once)) == 12


@pytest.mark.parametrize(
    "other",
    [
        BILLING.replace("charge", "refund"),
        BILLING.replace("ValueError", "KeyError"),
        BILLING.replace("    charge(order)\n", "    log(order)\ndef log(order):\n    charge(order)\n"),
    ],
)
def test_another_way_or_another_class_is_another_hash(other: str) -> None:
    assert stack_hash(raised_by(compiled(BILLING)["pay"], 1)) != stack_hash(raised_by(compiled(other)["pay"], 1))


def test_another_module_is_another_hash() -> None:
    here, there = (raised_by(compiled(BILLING, name)["pay"], 1) for name in ("shop.billing", "shop.other"))
    assert stack_hash(here) != stack_hash(there)


def test_frames_around_the_listener_do_not_count() -> None:
    pay = compiled(BILLING)["pay"]
    around = compiled("def call(f):\n    f(1)\n", "pyromq.client.consumer.dispatch.runners")["call"]
    inside = compiled("def call(f):\n    f(1)\n", "pyromqueue.calls")["call"]
    plain = raised_by(compiled("def call(f):\n    f(1)\n", "pyromq.other")["call"], pay)
    assert stack_hash(raised_by(around, pay)) == stack_hash(plain)
    assert stack_hash(raised_by(inside, pay)) != stack_hash(plain)


def test_the_depth_of_a_recursion_does_not_count() -> None:
    sink = compiled("def sink(n):\n    if not n:\n        raise ValueError\n    sink(n - 1)\n")["sink"]
    assert stack_hash(raised_by(sink, 3)) == stack_hash(raised_by(sink, 300))


def test_a_comprehension_is_no_frame_of_its_own() -> None:
    """Up to Python 3.11 it is one."""
    plain = "def f():\n    for x in [1]:\n        g()\ndef g():\n    raise ValueError\n"
    comprehension = "def f():\n    [g() for x in [1]]\ndef g():\n    raise ValueError\n"
    assert stack_hash(raised_by(compiled(plain)["f"])) == stack_hash(raised_by(compiled(comprehension)["f"]))


def test_an_error_without_end_is_told() -> None:
    endless = compiled("def endless():\n    endless()\n")["endless"]
    raised = raised_of(raised_by(endless))
    assert raised.error_class == "RecursionError" and raised.stack


def test_a_traceback_of_many_functions_is_looked_at_from_both_ends() -> None:
    lines = [f"def f{n}():\n    f{n + 1}()\n" for n in range(FRAMES_MAX * 2)]
    text = "".join(lines) + f"def f{FRAMES_MAX * 2}():\n    raise ValueError\n"
    deep = raised_by(compiled(text)["f0"])
    assert stack_hash(deep) == stack_hash(raised_by(compiled(text)["f0"]))
    assert stack_hash(deep) != stack_hash(raised_by(compiled(text)["f1"]))


def test_an_error_raised_again_and_again_has_one_hash() -> None:
    module = compiled("error = ValueError('one for all')\ndef f():\n    raise error\n")
    assert len({stack_hash(raised_by(module["f"])) for _ in range(5)}) == 1


def test_causes_count_and_circles_end() -> None:
    text = "def f(x):\n    try:\n        g(x)\n    except Exception as e:\n        raise ValueError('no') from e\n"
    text += "def g(x):\n    raise x\n"
    f = compiled(text)["f"]
    assert stack_hash(raised_by(f, KeyError("k"))) != stack_hash(raised_by(f, OSError("o")))
    one, other = ValueError("a"), ValueError("b")
    one.__cause__, other.__cause__ = other, one
    assert stack_hash(one)


def test_members_of_a_group_are_told() -> None:
    group = ExceptionGroup("some tasks failed", [ValueError("a"), DeclinedError("b"), KeyError("c"), OSError("d")])
    text = text_of(group)
    assert text.startswith("some tasks failed (4 sub-exceptions): ValueError: a; ") and "DeclinedError: b" in text
    assert "OSError" not in text
    nested = ExceptionGroup("outer", [group, HostileError()])
    assert "no text" in text_of(nested)
    one, other = (raised_by(_raise, ExceptionGroup("g", [kind()])) for kind in (ValueError, KeyError))
    assert stack_hash(one) != stack_hash(other)


def _raise(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize("error", [HostileError(), OddTextError(), Stop(), KeyboardInterrupt(), SystemExit(3)])
def test_whatever_an_exception_does_there_is_a_failure_to_tell_of(error: BaseException) -> None:
    raised = raised_of(raised_by(_raise, error))
    assert raised.error_class and raised.stack and isinstance(raised.failure().text, str)


def test_what_was_never_raised_is_known_by_its_text() -> None:
    assert stack_hash(ValueError("x")) == "" and raised_of(ValueError("x 1")).failure().stack


def test_what_a_thread_may_not_die_of_keeps_its_cause() -> None:
    failure = as_failure(raised_by(_raise, Stop()))
    assert isinstance(failure, RuntimeError) and isinstance(failure.__cause__, Stop)
    assert str(failure) == "the listener raised Stop"
    assert stack_hash(failure) != stack_hash(as_failure(raised_by(_raise, SystemExit(1))))


def test_huge_texts_are_cut_before_masks_and_after() -> None:
    seen: list[int] = []

    def mask(text: str) -> str:
        seen.append(len(text))
        return text * 10

    failure = raised_of(ValueError("x" * 5_000_000)).failure([mask])
    assert seen == [RAW_CHARACTERS_MAX] and len(failure.text.encode()) <= TEXT_BYTES_MAX


def test_masks_see_the_text_one_after_the_other() -> None:
    masks = [lambda text: text.replace("4111", "****"), lambda text: text + "!"]
    assert masked("card 4111", masks) == "card ****!"
    assert raised_of(ValueError("card 4111")).failure(masks).text == "card ****!"


@pytest.mark.parametrize("mask", [lambda _: None, lambda _: 17, lambda _: 1 / 0, lambda: "", None, sys])
def test_what_a_mask_fails_on_is_not_told(mask: Any) -> None:
    assert masked("card 4111", [mask]) == MASK_FAILED


def test_a_traceback_begins_in_the_listener_and_ends_with_the_error() -> None:
    billing = compiled(BILLING)
    own = compiled("def call(listener): listener(7)", "pyromq.client.own")  # a frame of PyroMQ around the listener
    error = raised_by(own["call"], billing["pay"])
    assert raised_of(error).traceback == "", "only where it is asked for"
    raised = raised_of(error, with_traceback=True)
    assert raised.traceback.splitlines() == [
        '  File "shop.billing.py", line 3, in pay',
        '  File "shop.billing.py", line 6, in charge',
        "ValueError: order 7 is bad",
    ]
    assert raised.failure((), 2_000).traceback == raised.traceback
    assert raised.failure((), 60).traceback == "…\nValueError: order 7 is bad"
    assert raised.failure().traceback == ""


def test_a_traceback_shows_code_and_the_way_to_a_file_as_it_is_imported() -> None:
    def pay() -> None:
        raise DeclinedError("no\nmoney")

    lines = traceback_of(raised_by(pay)).splitlines()
    assert lines[0].startswith('  File "tests/unit/client/') or lines[0].startswith('  File "unit/client/')
    assert lines[1] == '    raise DeclinedError("no\\nmoney")'
    assert lines[2].endswith("DeclinedError: no money"), "the text of an error is one line"


def test_a_traceback_has_its_causes_first_and_the_innermost_calls_of_a_recursion() -> None:
    def dig(depth: int) -> None:
        if depth:
            dig(depth - 1)
        raise KeyError("gold")

    def pay() -> None:
        try:
            dig(300)
        except KeyError as error:
            raise DeclinedError("no gold") from error

    lines = traceback_of(raised_by(pay)).splitlines()
    assert lines[-1].endswith("DeclinedError: no gold")
    cause = next(place for place, line in enumerate(lines) if line.startswith("KeyError: "))
    assert cause < len(lines) - 1 and len(lines) < 2 * (FRAMES_SHOWN + 1) * 2
    assert sum(", in " in line for line in lines[:cause]) == FRAMES_SHOWN


def test_a_traceback_is_masked_as_the_text_is() -> None:
    raised = raised_of(raised_by(compiled(BILLING)["charge"], 4111), with_traceback=True)
    hidden = raised.failure([lambda text: text.replace("4111", "****")], 2_000)
    assert hidden.traceback.endswith("ValueError: order **** is bad")
    assert raised.failure([lambda text: 1 / 0], 2_000).traceback == MASK_FAILED  # type: ignore[list-item, return-value]


@pytest.mark.parametrize("kind", [HostileError, OddTextError, Stop, ValueError])
def test_whatever_an_exception_does_there_is_a_traceback_or_none(kind: type[BaseException]) -> None:
    error = kind()
    assert traceback_of(error) == "", "it was never raised"

    def fail() -> None:
        raise error

    assert ", in fail\n" in traceback_of(raised_by(fail))
