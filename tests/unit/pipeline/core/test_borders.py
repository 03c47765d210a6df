"""Errors on their way out of a worker of Spark: a sentence for those of ours, the traceback for all others."""

from __future__ import annotations

import io
import os

import pytest
from pyspark.util import handle_worker_exception

from pyromq.errors import TopicNotFoundError
from pyromq.pipeline.core.borders import in_one_sentence


@in_one_sentence
def fail(error: Exception) -> None:
    try:
        raise KeyError("within")
    except KeyError:
        raise error  # noqa: B904  # with a context, as most have


def sent(error: Exception) -> str:
    """What a worker tells Spark of an error."""
    out = io.BytesIO()
    try:
        fail(error)
    except Exception as raised:
        handle_worker_exception(raised, out)
    return out.getvalue()[8:].decode()


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"PYTHON_WORKER_FACTORY_SECRET": "x"})


def test_an_error_of_ours_is_one_line() -> None:
    told = sent(TopicNotFoundError("ordrs", "there is no topic ordrs; did you mean orders?"))
    assert told == "pyromq.errors.TopicNotFoundError: code 17: there is no topic ordrs; did you mean orders?\n"


def test_an_error_of_anybody_else_comes_with_its_traceback() -> None:
    assert sent(ValueError("no")).startswith("Traceback (most recent call last)")


def test_outside_of_workers_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {})
    assert sent(TopicNotFoundError("ordrs")).startswith("Traceback (most recent call last)") and not os.environ
