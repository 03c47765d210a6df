"""Frameworks are the user's: without one, the error says what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(("module", "package"), [("dramatiq", "dramatiq"), ("kombu", "celery"), ("taskiq", "taskiq")])
def test_a_plug_in_without_its_framework_names_the_extra(module: str, package: str) -> None:
    program = f"""
import sys
sys.modules[{module!r}] = None
try:
    import pyromq.integrations.{package}
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert f"pip install 'pyromq[{package}]'" in done.stdout


def test_the_package_itself_imports_no_framework() -> None:
    program = """
import sys
import pyromq.integrations
print(sorted({"dramatiq", "kombu", "celery", "taskiq"} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout == "[]\n"
