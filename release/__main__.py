"""``python -m release wheels | smoke | release VERSION``, which ``make`` runs under the names of these steps."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from release.building import ROOT, ReleaseError, build_core, build_pure
from release.checking import check_all, check_reproducible
from release.smoke import interpreters, try_with_pip, try_with_uv
from release.steps import Release, carry_out

_STAGED = ROOT / ".cache/release-core"


def make_wheels(folder: Path) -> None:
    """Build, check, build again and compare."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in [*build_pure(folder), *build_core(folder)]:
        print(f"built {file.name}", flush=True)
    for line in [*check_all(folder, _STAGED), check_reproducible(folder)]:
        print(f"ok    {line}", flush=True)


def try_wheels(folder: Path) -> None:
    """Install and use the files with pip and uv, in every supported Python of this machine."""
    for python in interpreters():
        print(f"ok    pip, {Path(python).name}: {try_with_pip(folder, python)}", flush=True)
    newest = interpreters()[-1]
    print(f"ok    uv and uvx, {Path(newest).name}: {try_with_uv(folder, newest)}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m release")
    steps = parser.add_subparsers(dest="step", required=True)
    for name in ("wheels", "smoke"):
        steps.add_parser(name).add_argument("--dist", type=Path, default=ROOT / "dist")
    release = steps.add_parser("release")
    release.add_argument("version")
    release.add_argument("--dry", action="store_true", help="check everything, change nothing")
    release.add_argument("--skip", default="", help="steps to leave out, with commas; then nothing is tagged")
    asked = parser.parse_args()
    try:
        match asked.step:
            case "wheels":
                make_wheels(asked.dist)
            case "smoke":
                try_wheels(asked.dist)
            case _:
                carry_out(Release(asked.version, asked.dry, tuple(filter(None, asked.skip.split(",")))))
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
