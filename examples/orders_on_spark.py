"""Orders that a broker keeps, on Spark: archived as Parquet, and told of in a report with charts.

    python examples/orders_survive_a_crash.py FOLDER
    python examples/orders_on_spark.py FOLDER

Starts a broker over the data that the first example left in FOLDER and types two commands: ``pyromq pipeline archive``
writes FOLDER/archive, ``pyromq pipeline report`` writes FOLDER/report.html. Then the archive is read without Spark, to
see that every order is in it. Where Spark cannot run, one line says what to install.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from orders_survive_a_crash import TOPIC, Servers
from rich.console import Console

from pyromq.cli.main import main as pyromq
from pyromq.pipeline.spark.requirements import what_is_missing

# Two short jobs: the JVM's best compiler would take longer than what it saves.
JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"


def run_pipeline(console: Console, folder: Path) -> int:
    archive, page = folder / "archive", folder / "report.html"
    for words in (
        ("archive", TOPIC, "--to", str(archive)),
        ("report", TOPIC, "--html", str(page)),
    ):
        console.print(f"\n[dim]$[/] [bold]pyromq pipeline {' '.join(words)}[/]", soft_wrap=True)
        begin = time.perf_counter()
        if code := pyromq(["pipeline", *words, "-o", "table"]):
            return code
        console.print(f"[dim]{time.perf_counter() - begin:.0f} s, with the start of Spark[/]")
    rows, orders = count_orders(archive)
    console.print(f"\nRead from Parquet without Spark: {rows:,} messages, [bold]{orders:,} different orders[/].")
    console.print(f"[green]The picture:[/] {page.absolute().as_uri()}", soft_wrap=True)  # a link, if it stays in a line
    return 0


def count_orders(archive: Path) -> tuple[int, int]:
    """How many messages there are in an archive, and how many keys they have."""
    from pyarrow import compute, dataset

    keys = dataset.dataset(archive, format="parquet").to_table(columns=["keys"])["keys"]
    return len(keys), compute.count_distinct(keys).as_py()


def main() -> int:
    console, folder = Console(highlight=False), Path(sys.argv[1])
    console.print()
    console.rule("[bold]The orders on Spark[/]", align="left")
    if missing := what_is_missing():
        console.print(f"skipped: {missing}", markup=False, soft_wrap=True)
        return 0
    os.environ.setdefault("JDK_JAVA_OPTIONS", JAVA)
    servers = Servers(folder / "data")
    os.environ["PYROMQ_NAMESERVER"] = servers.nameserver
    servers.start()
    try:
        return run_pipeline(console, folder)
    finally:
        servers.stop()


if __name__ == "__main__":
    sys.exit(main())
