"""Mixed load on three members for hours, with a fault every few minutes; a table and a picture at the end.

python -m tests.soak --hours 3 [--rate 30] [--seed N] [--record docs/reliability.md]
python -m tests.soak --report [--record docs/reliability.md]       of the runs so far, also of one that goes on

Runs leave their samples in a folder as they go, and add up: the table has a row for each, the picture shows all. Ctrl-C
ends a run early and in order: what was acknowledged is still consumed, and judged.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import uvloop

from tests.faults.lease_servers import LEASE_SERVERS, is_installed
from tests.soak.picture import picture
from tests.soak.report import faults_table, put_into, reports_in, table
from tests.soak.run import SoakPlan, SoakRun
from tests.soak.samples import RunFolder

KEPT = Path(".cache") / "soak"


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=3.0)
    parser.add_argument("--rate", type=float, default=30.0, help="messages a second, all kinds together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", type=float, default=180.0, help="seconds between two faults, on average")
    parser.add_argument("--kept", type=Path, default=KEPT, help="where runs leave their samples")
    parser.add_argument("--store", choices=list(LEASE_SERVERS), help="where leases are: etcd where it is installed")
    parser.add_argument("--report", action="store_true", help="only show what runs so far have left")
    parser.add_argument("--record", type=Path, help="a page that gets the table; the picture goes beside it")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    problems = [] if given.report else await soak(given)
    show(given.kept, given.record)
    for each in problems:
        print(f"PROBLEM {each}")
    return bool(problems)


async def soak(given: argparse.Namespace) -> list[str]:
    """One run; a signal ends it early."""
    store = given.store or ("etcd" if is_installed("etcd") else "PostgreSQL")
    plan = SoakPlan(hours=given.hours, rate=given.rate, seed=given.seed, fault_every_s=given.every, lease_store=store)
    name = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    with tempfile.TemporaryDirectory(prefix="pyromq-soak-") as scratch:
        run = SoakRun(plan, Path(scratch), RunFolder(given.kept / name), tell=tell)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, run.stopping.set)
        return await run.go()


def show(kept: Path, record: Path | None) -> None:
    reports = reports_in(kept)
    if not reports:
        print(f"no runs in {kept}")
        return
    print(f"{table(report.row() for report in reports)}\n\n{faults_table(reports)}")
    image = (record.parent / "images" if record else kept) / "soak.svg"
    image.write_text(picture(reports))
    print(f"picture: {image}")
    if record:
        record.write_text(put_into(record.read_text(), reports))


def tell(line: str) -> None:
    print(datetime.now(UTC).strftime("%H:%M:%S"), line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sys.exit(runner.run(main()))
