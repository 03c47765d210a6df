"""What a job reads."""

from __future__ import annotations

import pytest

from pyromq.errors import ConfigError
from pyromq.pipeline.jobs.common.selection import Selection


def test_topics_are_a_tuple_that_is_not_empty() -> None:
    for topics in ((), "orders"):
        with pytest.raises(ConfigError, match="topics="):
            Selection(topics=topics)  # type: ignore[arg-type]


def test_jobs_that_need_properties_refuse_them_as_one_text() -> None:
    Selection(topics=("orders",), options={"Properties": "map"}).require_properties_as_map()
    with pytest.raises(ConfigError, match="leave the option properties out"):
        Selection(topics=("orders",), options={"Properties": "raw"}).require_properties_as_map()
