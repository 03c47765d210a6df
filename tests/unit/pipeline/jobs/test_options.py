"""Options of jobs: the same names and types for type checkers as for the jobs, and a hint for each misspelt one."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from pyromq.errors import ConfigError
from pyromq.pipeline import ConsumeOptions, consume
from pyromq.pipeline.consuming.options import ConsumeSettings
from pyromq.pipeline.jobs import (
    ArchiveOptions,
    DedupeOptions,
    RedriveOptions,
    ReplayOptions,
    ReportOptions,
    Selection,
    archive,
    dedupe,
    redrive,
    replay,
    report,
)
from pyromq.pipeline.jobs.archiving.options import ArchiveFormat, ArchiveSettings, ArchiveWriterKind
from pyromq.pipeline.jobs.reporting.options import ReportSettings
from pyromq.pipeline.jobs.resending.options import RedriveSettings, ReplaySettings
from pyromq.pipeline.jobs.running.options import DedupeSettings
from pyromq.pipeline.tables.filling import FillOptions, FillSettings

ORDERS = Selection(topics=("orders",))
HOW_TOS = Path(__file__).parents[4] / "docs" / "how-to"


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        (ConsumeOptions, ConsumeSettings),
        (ArchiveOptions, ArchiveSettings),
        (ReportOptions, ReportSettings),
        (ReplayOptions, ReplaySettings),
        (RedriveOptions, RedriveSettings),
        (DedupeOptions, DedupeSettings),
        (FillOptions, FillSettings),
    ],
)
def test_type_checkers_know_the_options_that_a_job_takes(options: type, settings: type) -> None:
    assert get_type_hints(options) == get_type_hints(settings)


@pytest.mark.parametrize(
    ("job", "given", "misspelt", "meant"),
    [
        (consume, ("orders", "billing", print), "check_point", "checkpoint"),
        (archive, (ORDERS, "archive"), "compresion", "compression"),
        (replay, (ORDERS, "again"), "dryrun", "dry_run"),
        (redrive, ("billing",), "canary_wait", "canary_wait_s"),
        (report, (["orders"],), "group", "groups"),
        (dedupe, (ORDERS,), "to_topics", "to_topic"),
    ],
)
def test_a_misspelt_option_is_named_before_spark_is_asked(
    job: Callable[..., Any], given: tuple[Any, ...], misspelt: str, meant: str
) -> None:
    text = rf"{job.__name__}\(\) has no option '{misspelt}'; did you mean {meant}\?"
    with pytest.raises(TypeError, match=text):
        job(None, *given, **{misspelt: 1})


@pytest.mark.parametrize("job", [replay, redrive])
def test_a_rate_that_sends_nothing_is_refused(job: Callable[..., Any]) -> None:
    given = ("billing",) if job is redrive else (ORDERS, "again")
    with pytest.raises(ConfigError, match="a rate of 0 messages a second sends nothing"):
        job(None, *given, rate=0)


def test_tasks_write_parquet_alone() -> None:
    assert ArchiveSettings().is_by_tasks
    assert not ArchiveSettings(writer=ArchiveWriterKind.SPARK).is_by_tasks
    assert not ArchiveSettings(form=ArchiveFormat.DELTA).is_by_tasks


@pytest.mark.parametrize(
    ("job", "options"),
    [
        (archive, ArchiveOptions),
        (replay, ReplayOptions),
        (redrive, RedriveOptions),
        (report, ReportOptions),
        (dedupe, DedupeOptions),
    ],
)
def test_every_option_of_a_job_is_in_its_how_to(job: Callable[..., Any], options: type) -> None:
    page = (HOW_TOS / "spark-jobs.md").read_text(encoding="utf-8")
    found = re.search(rf"^\| `{job.__name__}\(.*\)` \| (.+) \|$", page, re.MULTILINE)
    assert found is not None and re.findall(r"`(\w+)`", found[1]) == list(get_type_hints(options))


def test_every_option_of_consume_is_in_its_how_to() -> None:
    page = (HOW_TOS / "spark-consume.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) >= set(get_type_hints(ConsumeOptions))
