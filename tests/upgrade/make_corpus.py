"""Packs data folders of earlier states: ``python -m tests.upgrade.make_corpus COMMIT…``, in a clone with its history.

The sources of a commit come from git, the packages from the environment that runs this and from the folder in
``OLD_PACKAGES`` (``pip install --target``), for what is no longer needed. Logs are sparse files, so an
archive has some ten kilobytes. ``more`` is what stands beside a store: settings, data of the console, a checkpoint.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def main(commits: list[str]) -> None:
    for commit in commits:
        when = _git("show", "--no-patch", "--format=%cd-%h", "--date=format:%Y-%m-%d", commit)
        with tempfile.TemporaryDirectory() as place:
            sources = Path(place) / "sources"
            sources.mkdir()
            archive = subprocess.run(
                ["git", "archive", commit, "src"], cwd=ROOT, capture_output=True, check=True
            ).stdout
            subprocess.run(["tar", "-x"], cwd=sources, input=archive, check=True)
            for kind in ("stopped", "killed", "more"):
                _write(sources / "src", Path(place) / kind, kind)
                target = HERE / "corpus" / f"{when}-{kind}.tar.xz"
                subprocess.run(["tar", "--sparse", "-cJf", target, "-C", place, kind], check=True)
                print(target.name, target.stat().st_size)


def _write(sources: Path, folder: Path, kind: str) -> None:
    path = os.pathsep.join([str(sources), os.environ.get("OLD_PACKAGES", "")])
    script = "writing_more.py" if kind == "more" else "writing.py"
    command = [sys.executable, "-P", str(HERE / script), str(folder), kind]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": path, "PYROMQ_PURE": "1"}, check=True, timeout=180)


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main(sys.argv[1:])
