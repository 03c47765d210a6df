"""For the demo: archive the orders of a running cluster and write the report page, or say in a line why not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import msgspec

from pyromq.errors import MQError


class Demonstrated(msgspec.Struct, frozen=True, kw_only=True):
    """``skipped`` says why nothing was done; empty when it was."""

    archived: int = 0
    archive: str = ""
    page: str = ""
    skipped: str = ""


def demo(
    nameserver: str,
    folder: str | Path,
    *,
    topics: Sequence[str] = ("orders",),
    groups: Sequence[str] = (),
    say: Callable[[str], object] = lambda text: None,
) -> Demonstrated:
    """Starts Spark, archives the topics into ``folder/archive`` and writes ``folder/report.html``.

    Never raises for what is not installed: then it says what is missing, in one line.
    """
    if missing := why_not():
        text = f"skipped the Spark pipeline: {missing}"
        say(text)
        return Demonstrated(skipped=text)
    from pyromq.pipeline import session
    from pyromq.pipeline.jobs import Selection, archive, page, report

    folder = Path(folder)
    say("starting Spark …")
    spark = session("local[2]", "pyromq demo", **{"spark.ui.enabled": False, "spark.log.level": "ERROR"})
    try:
        target = folder / "archive"
        done = archive(spark, Selection(topics=tuple(topics), nameserver=nameserver), str(target))
        say(f"archived {done.messages:,} messages to {target} ({done.files} Parquet files) in {done.took_s:.1f} s")
        found = report(spark, topics, nameserver=nameserver, groups=groups)
        html = folder / "report.html"
        html.write_text(page(found), encoding="utf-8")
        say(f"report: {html}")
    finally:
        spark.stop()
    return Demonstrated(archived=done.messages, archive=str(target), page=str(html))


def why_not() -> str:
    """What keeps Spark from running here; empty if nothing does."""
    missing = [name for name in ("pyspark", "pyarrow", "numpy") if find_spec(name) is None]
    if missing:
        return f"{', '.join(missing)} not installed (pip install 'pyromq[pipeline]')"
    from pyromq.pipeline.java import java_home

    try:
        java_home()
    except MQError as error:
        return str(error)
    return ""
