"""Replication as operators see it: command line, doctor, mqadmin, metrics."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from pyromq import Message
from pyromq.aio import Admin
from pyromq.broker.broker import Broker
from pyromq.cli.main import main
from pyromq.metrics.exposition import whole_text
from pyromq.operate.health import ClusterSeverity
from pyromq.replication.follower import Following
from pyromq.replication.settings import Role
from tests.integration.replication_pair import Pair, a_pair
from tests.integration.waiting import until
from tests.unit.broker.measuring.collected import parts_of
from tests.unit.metrics.grammar import ReadFamily, read_text

pytestmark = pytest.mark.integration


async def told(pair: Pair, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """What a command of ``pyromq`` says; it runs in a thread, on a loop of its own."""
    capsys.readouterr()
    code = await asyncio.to_thread(main, [*words, "-n", pair.nameserver])
    return code, capsys.readouterr().out


async def test_a_pair_is_shown_with_roles_positions_and_metadata(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        master, replica = await pair.start_master(), await pair.start_replica()
        for number in range(20):
            await producer.send(Message("orders", b"%d" % number))
        await pair.caught_up()
        await pair.metadata_taken()

        code, text = await told(pair, capsys, "cluster", "replication", "-o", "jsonl")
        first, second = map(json.loads, text.splitlines())
        assert code == 0
        assert (first["role"], first["in_sync"], first["number"]) == ("sync-master", 1, 0)
        assert first["end"] == first["confirmed"] == master.store.end_position
        assert (second["role"], second["state"], second["behind_bytes"]) == ("replica", "following", 0)
        assert (second["has_metadata"], second["findings"], second["problem"]) == (True, [], "")

        code, text = await told(pair, capsys, "mqadmin", "haStatus", "-b", str(master.address))
        assert code == 0 and f"#MasterAddr\t{master.address}" in text and "#InSyncSlaveNum\t1" in text and "OK" in text
        code, text = await told(pair, capsys, "mqadmin", "haStatus", "-b", str(replica.address))
        assert f"#MasterAddr\t{pair.leader.address}" in text
        assert f"#CommitLogMaxOffset\t{replica.store.end_position}" in text

        async with Admin(pair.nameserver) as admin:
            found = {each.about: each for each in await admin.health.findings()}
        assert found["replication"].severity is ClusterSeverity.OK


async def test_a_replica_that_went_away_is_found_by_doctor_and_metrics(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with a_pair(tmp_path) as pair:
        async with pair.producer() as producer:
            master = await pair.start_master()
            replica = await pair.start_replica()
            await producer.send(Message("orders", b"an empty replica could follow any master"))
            await pair.caught_up()
        await until(lambda: in_sync(master) == 1, "the master has heard how far its replica is")
        of_master, of_replica = metrics_of(master), metrics_of(replica)
        assert of_master["pyromq_replication_role"].value(role="sync-master") == 1
        assert of_master["pyromq_replica_behind_bytes"].value(replica="127.0.0.1 id 1") == 0
        assert of_replica["pyromq_replica_following"].value(state="following") == 1
        assert of_replica["pyromq_replication_role"].value(role="replica") == 1
        await pair.stop_master()
        await pair.start_master(Role.SYNC_MASTER, folder="another")  # an empty one: the replica must not follow it
        await until(lambda: pair.follower.state is Following.REFUSED, "the replica refuses to follow another log")

        async with Admin(pair.nameserver) as admin:
            bad = [each for each in await admin.health.findings() if "does not follow" in each.text]
        assert [each.about for each in bad] == ["replica 1 of broker-a"]
        code, text = await told(pair, capsys, "cluster", "replication", "-o", "jsonl")
        assert code == 5 and "does not follow" in text


def in_sync(master: Broker) -> float:
    return metrics_of(master)["pyromq_replicas_in_sync"].value()


def metrics_of(broker: Broker) -> dict[str, ReadFamily]:
    return read_text(whole_text(parts_of(broker)).decode())
