"""SPARK_HOME whose Python workers start in a fifth of the time.

Spark puts a zip of PySpark before all that its Python processes import, and what comes from a zip Python compiles anew
each time: 0.6 s of CPU for each process, and every streaming query starts several. Where workers run on an interpreter
that has PySpark installed, a home without that zip leaves them the installed modules, which are compiled already.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_PARTS: Final = ("bin", "conf", "data", "jars", "sbin")
_HOME: Final = "SPARK_HOME"


def light_home(installed: Path, folder: Path) -> Path:
    """A home in ``folder`` with all parts of the installed Spark but Python's; links, made anew when they changed."""
    home = folder / f"spark-{hashlib.sha256(str(installed).encode()).hexdigest()[:16]}"
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    for part in _PARTS:
        link, target = home / part, installed / part
        if not target.exists() or (link.is_symlink() and link.readlink() == target):
            continue
        aside = home / f".{part}-{os.getpid()}"
        aside.unlink(missing_ok=True)
        aside.symlink_to(target)
        aside.replace(link)
    return home


@contextmanager
def started_from(home: Path | None) -> Iterator[None]:
    """A Spark that starts inside has this home, unless the user chose one; processes begun later know nothing of it."""
    if home is None or _HOME in os.environ:
        yield
        return
    os.environ[_HOME] = str(home)
    try:
        yield
    finally:
        os.environ.pop(_HOME, None)
