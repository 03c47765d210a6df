"""A program that has no Spark of its own: everything goes through Spark Connect.

``python -m tests.spark.connect_client ADDRESS NAMESERVER FOLDER``: reads topic ``in`` (numbers), copies it to ``out``,
consumes, archives, replays and reports it, leaves out repetitions, and prints one line of JSON about each. It ends
without stopping Spark.
"""

from __future__ import annotations

import json
import sys
from typing import Any, NoReturn

from pyromq.errors import MQError
from pyromq.pipeline import Dead, consume, read_store, session
from pyromq.pipeline.consuming.rows import Record
from pyromq.pipeline.consuming.verdicts import Verdict
from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.jobs import Selection, archive, dedupe, read_archive, redrive, replay, report
from pyromq.pipeline.jobs.common.errors import JobFailedError

WAIT_S_MAX = 180
unreached = set[str]()  # groups that the listener wanted to tell from here


def handle(record: Record) -> Verdict:
    number = int(record.body)
    if number == 7:
        return Dead("a seven")
    if number == 8 and not record.delivery_attempt:
        raise ValueError("an eight")
    return None


def tell(name: str, value: Any) -> None:
    print(json.dumps([name, value]), flush=True)


def no_way(options: SourceOptions) -> NoReturn:
    unreached.add(options.group)
    raise MQError("there is no way from here to the brokers")


def main(address: str, nameserver: str, folder: str) -> None:
    spark = session(address)
    tell("session", type(spark).__module__)
    messages = spark.read.format("pyromq").option("nameserver", nameserver).option("topic", "in").load()
    tell("batch", sorted(int(row["body"]) for row in messages.collect()))

    reading = {"nameserver": nameserver, "topic": "in", "group": "copy", "startingOffsets": "earliest"}
    rows = spark.readStream.format("pyromq").options(**reading).schema("body binary, keys string").load()
    writing = rows.writeStream.format("pyromq").option("nameserver", nameserver).option("topic", "out")
    writing = writing.option("mode", "idempotent").option("checkpointLocation", f"{folder}/copy")
    query = writing.trigger(once=True).start()  # no other trigger follows that could tell of this one
    tell("copied", query.awaitTermination(WAIT_S_MAX))

    spark._pyromq_listener._cluster_of = no_way  # type: ignore[attr-defined]  # from now on the source tells groups
    running = consume(
        spark, "in", "work", handle, nameserver=nameserver, start="earliest", checkpoint=f"{folder}/work",
        trigger={"availableNow": True},
    )  # fmt: skip
    ended = running.wait(WAIT_S_MAX)
    counts = running.counts
    tell("consumed", [ended, counts.rows, counts.done, counts.retried, counts.dead])

    selection = Selection(topics=("in",), nameserver=nameserver)
    archived = archive(spark, selection, f"{folder}/archive", group="archive", rows_per_batch=6)
    again = archive(spark, selection, f"{folder}/archive", group="archive")
    there = read_archive(spark, f"{folder}/archive").count()
    tell("archived", [archived.messages, archived.batches > 1, again.messages, there])
    tell("replayed", replay(spark, selection, "out", dry_run=False).sent)
    tell("written", spark.read.format("pyromq").options(nameserver=nameserver, topic="out").load().count())
    tell("redriven", redrive(spark, "work", nameserver=nameserver).found)
    tell("reported", sum(each.messages for each in report(spark, ["in"], nameserver=nameserver).throughput))
    once = dedupe(spark, selection, key="string(body) % 5", path=f"{folder}/once", group="once")
    tell("deduped", [once.read, once.written, once.dropped, spark.read.parquet(f"{folder}/once").count()])
    tell("unreached", sorted(unreached))
    try:
        read_store(spark, f"{folder}/nowhere").collect()
    except Exception as error:
        tell("no store", "no commitlog" in str(error))
    try:
        archive(spark, Selection(topics=("missing",), nameserver=nameserver), f"{folder}/not")
    except JobFailedError as error:
        tell("failed", str(error))


if __name__ == "__main__":
    main(*sys.argv[1:4])
