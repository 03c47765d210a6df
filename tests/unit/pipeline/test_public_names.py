"""What the pipeline exports, and what importing it does not import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from pyromq import pipeline
from pyromq.pipeline import jobs

PURE = ("core", "arrow", "reading")


@pytest.mark.parametrize("package", [pipeline, jobs], ids=lambda package: package.__name__)
def test_every_public_name_has_a_home(package: ModuleType) -> None:
    homes: dict[str, str] = package._HOMES
    assert set(homes) == set(package.__all__)
    folders = {path.name for path in Path(str(package.__file__)).parent.iterdir()}
    for name in package.__all__:
        assert getattr(package, name) is not None or name == "DONE"
        assert name not in folders, "a room of that name would hide it"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = package.nothing


def test_importing_the_pipeline_does_not_import_spark() -> None:
    code = "import sys, pyromq.pipeline; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_planning_decoding_and_pulling_do_not_know_spark() -> None:
    base = Path(str(pipeline.__file__)).parent
    modules = [f"pyromq.pipeline.{room}.{path.stem}" for room in PURE for path in (base / room).glob("[!_]*.py")]
    code = f"import sys, {', '.join(modules)}; sys.exit('pyspark' in sys.modules)"
    assert len(modules) > 20 and subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
