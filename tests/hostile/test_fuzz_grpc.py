"""Damaged frames, header blocks and messages of the gRPC port: nothing unexpected is raised, every call is answered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from pyromq.broker.grpc.front import GrpcFront
from tests.hostile.fuzz_grpc import (
    SEEDS,
    FuzzReport,
    damaged,
    fuzz_frames,
    fuzz_headers,
    fuzz_messages,
    fuzz_real_broker,
    fuzz_taken,
)
from tests.hostile.rig import count
from tests.integration.grpc_client import grpc_broker

Record = Callable[[str, object], None]
SEED = 20_261_117


def check(report: FuzzReport, record: Record) -> None:
    assert not report.problems, "\n".join(report.problems)
    assert all(report.accepted.values()), f"some of it is good: {report}"
    record("fuzzed inputs of gRPC", sum(report.inputs.values()))


@pytest.mark.parametrize("fuzz", [fuzz_messages, fuzz_headers])
def test_what_is_damaged_is_refused_or_read(
    fuzz: Callable[[int, int, FuzzReport], None], record_property: Record
) -> None:
    report = FuzzReport()
    fuzz(count(20_000, 1_000_000), SEED, report)
    check(report, record_property)


async def test_a_connection_answers_or_ends_whatever_frames_come(record_property: Record) -> None:
    report = FuzzReport()
    await fuzz_frames(count(20_000, 1_000_000), SEED, report)
    check(report, record_property)


@pytest.mark.parametrize("seed", [SEED, 20_261_118])  # of the second, a damaged frame opens a stream far ahead
async def test_whole_calls_are_answered_or_end_the_connection(seed: int, record_property: Record) -> None:
    report = FuzzReport()
    await fuzz_taken(count(400, 20_000), seed, report)
    check(report, record_property)


@pytest.mark.integration
async def test_a_broker_answers_every_damaged_call(tmp_path: Path, record_property: Record) -> None:
    report = FuzzReport()
    await fuzz_real_broker(tmp_path, count(800, 20_000), SEED, report)
    check(report, record_property)


@pytest.mark.integration
async def test_every_rpc_is_fuzzed(tmp_path: Path) -> None:
    async with grpc_broker(tmp_path) as (broker, _):
        front = broker._grpc
        assert isinstance(front, GrpcFront)
        served = {path.decode().rpartition("/")[2] for path in front._methods}
    assert served - {"SyncLiteSubscription"} == SEEDS.keys()


def test_a_seed_repeats_its_inputs() -> None:
    data = SEEDS["SendMessage"].encode()
    first, second = Random(SEED), Random(SEED)
    assert [damaged(data, first) for _ in range(100)] == [damaged(data, second) for _ in range(100)]
