"""A consumer group on Spark: its options, checked before anything starts."""

from __future__ import annotations

from typing import Any

import pytest

from pyromq.errors import ConfigError
from pyromq.pipeline.consuming.group import consume, source_options


def test_the_source_reads_the_retries_of_the_group() -> None:
    found = source_options(["a", "b"], "g", "n:1", "group", {"maxOffsetsPerTrigger": 5, "failOnDataLoss": False})
    assert found["topic"] == "a,b" and found["includeRetry"] == "true"
    assert (found["maxOffsetsPerTrigger"], found["failOnDataLoss"]) == ("5", "false")
    with pytest.raises(ConfigError, match="option Group is set by consume itself"):
        source_options("a", "g", "", "group", {"Group": "h"})


@pytest.mark.parametrize("option", ["payload", "schema", "payloadMode"])
def test_options_of_typed_reads_are_refused_rather_than_passed_over(option: str) -> None:
    with pytest.raises(ConfigError, match=f"option {option} is of typed reads; a handler gets rows with body"):
        source_options("a", "g", "", "group", {option: "json"})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"start": "first"}, "start must be latest or earliest"),
        ({"handler": 7}, "handler must be a function, not int"),
        ({"attempts_max": -1}, "attempts_max must not be negative"),
        ({"options": {"maxOffsets": 1}}, "option maxOffsets"),
        ({"group": "no group!"}, "option group"),
        ({"columns": ["nothing"]}, "there is no column nothing"),
    ],
)
def test_mistakes_are_named_before_anything_starts(given: dict[str, Any], words: str) -> None:
    pytest.importorskip("pyspark")
    facts = {"topics": "orders", "group": "g", "handler": print, **given}
    with pytest.raises(ConfigError, match=words):
        consume(None, **facts)  # type: ignore[arg-type]
