"""Requirements of Spark on this machine: in one line what to install where something is missing."""

from __future__ import annotations

from importlib.util import find_spec

from pyromq.pipeline.spark import java

_PACKAGES = ("pyspark", "pyarrow", "numpy")


def what_is_missing(master: str = "local[*]") -> str:
    """What keeps us from using that Spark from here; empty if nothing does."""
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        return f"{', '.join(missing)} not installed: run pip install 'pyromq[pipeline-java]'"
    if master.startswith("sc://"):
        return ""  # a Spark Connect server has its own Java
    try:
        java.java_home()
    except java.JavaNotFoundError as error:
        return str(error)
    return ""
