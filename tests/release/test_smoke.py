"""The built files as a user meets them: installed from an index into a clean environment, without a compiler."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from release.building import ROOT, run
from release.local_index import answer, serving
from release.smoke import try_with_pip

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheels as pip builds them: the pure one, and that of the core where cargo is there."""
    folder = tmp_path_factory.mktemp("dist")
    sources = [ROOT, *([ROOT / "core"] if shutil.which("cargo") else [])]
    reached = subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder / "reached", "hatchling"],
        capture_output=True,
        check=False,
    )
    if reached.returncode:
        pytest.skip("no package index can be reached from here")
    for source in sources:
        run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, source)
    return folder


def test_an_installed_wheel_sends_and_consumes_a_message(files: Path) -> None:
    has_core = any(file.name.startswith("pyromq_core") for file in files.iterdir())
    said = try_with_pip(files, sys.executable, "[fast]" if has_core else "")
    assert ("compiled core" in said) == has_core


def test_the_index_lists_projects_and_files(tmp_path: Path) -> None:
    (tmp_path / "pyromq_core-0.1.0-cp311-abi3-linux_x86_64.whl").write_bytes(b"wheel")
    (tmp_path / "notes.txt").write_text("not served")
    assert b'href="pyromq-core/"' in (answer(tmp_path, "/simple/") or ("", b""))[1]
    assert b"#sha256=" in (answer(tmp_path, "/simple/pyromq-core/") or ("", b""))[1]
    assert answer(tmp_path, "/files/pyromq_core-0.1.0-cp311-abi3-linux_x86_64.whl") == (
        "application/octet-stream",
        b"wheel",
    )
    assert answer(tmp_path, "/simple/other/") is None
    assert answer(tmp_path, "/files/../notes.txt") is None
    with serving(tmp_path) as address:
        assert address.startswith("http://127.0.0.1:")
