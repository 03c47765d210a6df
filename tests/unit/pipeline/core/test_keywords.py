"""Keyword options: settings from what was given, and hints for misspelt names."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pyromq.pipeline.core.keywords import did_you_mean, settings_from


@dataclass(frozen=True)
class Settings:
    rate: float = 1.0
    dry_run: bool = True


def test_what_is_not_given_has_its_default() -> None:
    assert settings_from(Settings, {"rate": 5.0}, "replay") == Settings(rate=5.0, dry_run=True)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rates", r"replay\(\) has no option 'rates'; did you mean rate\?"),
        ("dryRun", r"replay\(\) has no option 'dryRun'; did you mean dry_run\?"),
        ("colour", r"replay\(\) has no option 'colour'; its options are rate, dry_run"),
    ],
)
def test_a_misspelt_option_is_refused_with_the_closest_name(name: str, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        settings_from(Settings, {name: 1}, "replay")


def test_hints_keep_the_case_of_the_known_name() -> None:
    assert did_you_mean("MAXoffset", ["maxOffsets", "topic"]) == "did you mean maxOffsets?"
    assert did_you_mean("colour", ["maxOffsets", "topic"]) == ""
