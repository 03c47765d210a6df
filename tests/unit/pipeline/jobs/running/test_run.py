"""Running a pipeline file: its functions are found first."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.pipeline.jobs.common.errors import PipelineFileError
from pyromq.pipeline.jobs.running.pipeline_file import parse_pipeline
from pyromq.pipeline.jobs.running.run import require_functions
from tests.unit.pipeline.jobs.running.pipelines import HEAD, SINK


def test_functions_of_a_pipeline_are_looked_for_before_anything_is_done(tmp_path: Path) -> None:
    pipeline = parse_pipeline(HEAD + '[[step]]\nsql = "x"\n[[step]]\npython = "not_there:f"\n' + SINK)
    with pytest.raises(PipelineFileError, match=r"^step\[1\]\.python: .* cannot be imported"):
        require_functions(pipeline, tmp_path)
