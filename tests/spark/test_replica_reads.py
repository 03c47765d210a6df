"""The master is dead: batches and streams read what there is from its replica, and go on when it is back."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pyromq.clock import SystemClock
from pyromq.net import Address, open_connection
from pyromq.testing import ServerProcess
from pyromq.wire.codes import RequestCode
from pyromq.wire.json import bodies as wire_bodies
from pyromq.wire.json import java_json
from tests.spark.queries import Collected, run
from tests.spark.topics import Topics, bodies

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("lane")]

WAIT_S = 120
COUNT = 40
SETTINGS = ("replication.replica_reads=true", "replication.metadata_interval_ms=100", "metrics.enabled=false")


class Server(ServerProcess):
    """A server of ours as a process, and its run-time information."""

    def facts(self) -> dict[str, Any]:
        async def ask() -> dict[str, Any]:
            connection = await open_connection(Address.parse(self.broker), clock=SystemClock())
            try:
                answer = await connection.request(RequestCode.GET_BROKER_RUNTIME_INFO, timeout_ms=10_000)
                return dict(java_json.decode(answer.body, wire_bodies.KeyValues).table)
            finally:
                connection.close()
                await connection.wait_closed()

        return asyncio.run(ask())


def broker(folder: Path, nameserver: str, role: str, number: int) -> list[str]:
    sets = [word for each in SETTINGS for word in ("--set", f"broker.{each}")]
    words = ["broker", "--data", str(folder), "--nameserver", nameserver, *sets]
    return [*words, "--role", role, "--broker-id", str(number)]


def until_copied(master: Server, replica: Server) -> None:
    end, deadline = int(master.facts()["commitLogMaxOffset"]), time.monotonic() + WAIT_S
    while int(replica.facts()["replicationMetadataLogEnd"]) < end:
        assert time.monotonic() < deadline, "the replica does not catch up"
        time.sleep(0.05)


def test_a_backlog_is_read_from_a_replica_while_the_master_is_dead(spark: Any, tmp_path: Path, checkpoint: str) -> None:
    with ExitStack() as stack:
        names = stack.enter_context(Server("nameserver"))
        words = broker(tmp_path / "master", names.nameserver, "async-master", 0)
        master = stack.enter_context(Server(*words))
        replica = stack.enter_context(Server(*broker(tmp_path / "replica", names.nameserver, "replica", 1)))
        with Topics(names.nameserver, "backlog") as topics:
            topic = topics.make(queues=2)
            options = topics.options(topic, group=topics.group, startingOffsets="earliest", requestTimeout="10s")
            topics.send(topic, range(COUNT // 2))
            before = run(spark, options, checkpoint)
            topics.send(topic, range(COUNT // 2, COUNT))
            until_copied(master, replica)
            sent = Counter(topics.sent)
        master.kill()
        rows = spark.read.format("pyromq").options(nameserver=names.nameserver, topic=topic).load().collect()
        assert bodies(rows) == sent, "as a table"
        sink = Collected()
        sink.batches |= before.batches
        run(spark, options, checkpoint, sink)
        assert bodies(sink.rows) == sent, "as a stream, which goes on where it was"

        again = stack.enter_context(Server(*words))
        with Topics(names.nameserver, "backlog") as topics:
            topics.create(topic, queues=2)
            topics.send(topic, range(COUNT, COUNT + 4))
            run(spark, options, checkpoint, sink)
            assert bodies(sink.rows) == sent + Counter(topics.sent), "at the master again"
        assert again.facts()["replicationRole"] == "async-master"
