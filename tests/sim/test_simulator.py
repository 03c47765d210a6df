"""Seeds of the simulator: nothing is lost, everything is consumed, the same seed is the same run."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.sim.commands import last_line, run_python, simulate
from tests.sim.families import (
    COPIES_FROM,
    DAMAGED,
    DISKS_FROM,
    MIX,
    MIX_FROM,
    NEW_FROM,
    RETENTION_FROM,
    SLEEPS_FROM,
    STANDBY_FROM,
    STOPS_FROM,
    TABLES_FROM,
    family_of,
)
from tests.sim.plan import (
    CONSUMERS,
    COPY,
    DAMAGE,
    DISK,
    FLIP,
    KINDS,
    OPERATIONS,
    POPS,
    PRODUCERS,
    SEED,
    SLEEP,
    SLOW_DISK,
    STANDBY,
    STOPS,
    STORIES,
    TABLE,
    USERS,
    make_plan,
)


@pytest.mark.parametrize("seeds", ["1..8", "11..18", "40012..40012", "70000..70000"])
def test_nothing_is_lost_whatever_fails(seeds: str) -> None:
    done = simulate("--seeds", seeds)
    assert done.returncode == 0, done.stdout + done.stderr
    assert last_line(done).endswith("failed 0")


def test_the_same_seed_gives_the_same_hash_in_one_process_and_in_another() -> None:
    first, second = simulate("--seed", "3"), simulate("--seed", "3")
    assert re.search(r"hash [0-9a-f]{12}: ok$", last_line(first)), first.stdout + first.stderr
    assert last_line(first) == last_line(second)
    again = simulate("--seeds", "3..8", "--repeat", "2")
    assert again.returncode == 0, again.stdout


@pytest.mark.more
def test_a_hundred_runs_have_the_hash_of_their_seed() -> None:
    done = simulate("--seeds", "1..50", "--repeat", "2")
    assert done.returncode == 0, done.stdout


KEPT = """
import gc
from tests.sim.loop import SimLoop
from tests.sim.plan import make_plan
from tests.sim.run import run
for seed in (2, 4, 20045):
    run(make_plan(seed))
gc.collect()
print(sum(isinstance(each, SimLoop) for each in gc.get_objects()), "kept")
"""


def test_a_simulation_leaves_nothing_in_memory() -> None:
    """Clients that are abandoned close their links in their last blocks, on no loop; brokers have commits that wait."""
    assert last_line(run_python("-c", KEPT)) == "0 kept"


ABANDONED = """
import asyncio
from random import Random
from tests.sim.loop import Machine, Process, SimLoop

async def work():
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.shield(asyncio.to_thread(print, "never"))

async def wait():
    await asyncio.sleep(1.0)

asyncio.set_event_loop(None)  # as after the first seed of a process
loop = SimLoop(Random(1))
loop.spawn(Process("dead", Machine("m", "10.0.0.1"), 1), work(), "work")
loop.run_until_complete(wait())
loop.forget_all()
print("over")
"""


def test_what_the_dead_would_have_awaited_is_not_reported() -> None:
    done = run_python("-c", ABANDONED)
    assert (last_line(done), done.stderr) == ("over", "")


def test_children_share_the_seeds_and_one_tally() -> None:
    done = simulate("--seeds", "1..2", "--jobs", "2", "--each", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.match(r"seeds 1\.\.2: 2 runs, .*, failed 0$", last_line(done))


def test_a_failure_in_a_child_is_told_with_the_command_that_repeats_it() -> None:
    done = simulate("--seeds", "3..3", "--jobs", "2", "--lie", "commit before flush")
    assert done.returncode == 1
    assert "repeat: make sim SEED=3 ARGUMENTS=\"--lie 'commit before flush'\"" in done.stdout
    assert last_line(done).endswith("failed 1")


def test_a_failure_tells_its_seed_and_how_to_repeat_it() -> None:
    done = simulate("--seed", "3", "--lie", "commit before flush")
    assert done.returncode == 1
    assert "repeat: make sim SEED=3 ARGUMENTS=\"--lie 'commit before flush'\"" in done.stdout
    assert re.match(r"seed 3: .* hash [0-9a-f]{12}: FAILED", last_line(done))


def test_plans_leave_out_kinds_of_faults_and_clients_and_some_plan_has_each() -> None:
    plans = [make_plan(seed) for seed in range(200)]
    assert {fault.kind for plan in plans for fault in plan.faults} == {*KINDS, *STORIES, FLIP}
    assert {client.kind for plan in plans for client in plan.clients} == {*PRODUCERS, *CONSUMERS, POPS}
    assert all(len(plan.kinds) < len(KINDS) for plan in plans)
    assert {sum(plan.sets.values()) for plan in plans} >= {1, 2, 3, 4, 5}
    assert {plan.mode for plan in plans} == {"safety", "liveness"}
    assert {plan.lease_store for plan in plans} == {"etcd", "postgresql"}


def test_newer_seeds_have_quiet_phases_and_more_traffic_and_can_be_run_without() -> None:
    plans = [make_plan(seed) for seed in range(40_000, 40_040)]
    assert {len(plan.quiet) for plan in plans} == {0, 1, 2}
    for plan in plans:
        assert {fault.burst for fault in plan.faults} <= set(range(len(plan.quiet) + 1))
        assert len({fault.number for fault in plan.faults}) == len(plan.faults)
        before = plan.without(("q",))
        assert (before.quiet, before.is_usual) == ((), False)
        assert before.faults == plan.faults[: len(before.faults)], "what comes later is added at the end"
    more = {fault.kind for seed in range(50_000, 50_040) for fault in make_plan(seed).faults}
    assert more >= {*OPERATIONS, DISK}
    assert not any(make_plan(seed).quiet for seed in range(50)), "seeds from before stay what they were"


def test_the_newest_seeds_have_long_lives_and_some_have_access_control() -> None:
    plans = [make_plan(seed) for seed in range(70_000, 70_060)]
    assert {plan.has_access for plan in plans} == {True, False}
    for plan in plans:
        assert plan.batch > make_plan(1).batch
        assert all(each.lasts_s >= 300 for each in plan.quiet)
        assert len({fault.number for fault in plan.faults}) == len(plan.faults)
        kinds = {fault.kind for fault in plan.faults}
        assert (USERS in kinds) is plan.has_access and not (plan.has_access and FLIP in kinds)
    assert not any(make_plan(seed).has_access for seed in range(69_940, 70_000))


def test_new_seeds_have_every_fault_operation_story_and_client() -> None:
    """What ``--minutes`` draws; each family that it may be occurs, and each has what makes it one."""
    plans = [make_plan(seed) for seed in range(NEW_FROM, NEW_FROM + 1_000)]
    faults = {fault.kind for plan in plans for fault in plan.faults}
    later = {DISK, COPY, SEED, SLEEP, SLOW_DISK, STANDBY, TABLE, USERS, DAMAGE, *STOPS}
    assert faults == {*KINDS, *STORIES, *OPERATIONS, FLIP, *later}
    assert {client.kind for plan in plans for client in plan.clients} == {*PRODUCERS, *CONSUMERS, POPS}
    assert {len(plan.quiet) for plan in plans} == {0, 1, 2} and {plan.is_usual for plan in plans} == {False, True}
    assert {plan.has_access for plan in plans} == {False, True}
    assert 100 < sum(plan.keeps_ms > 0 for plan in plans) < 400
    counts = Counter(family_of(plan.seed) for plan in plans)
    assert all(abs(counts[family] - 10 * percent) < 50 for family, percent in MIX), counts
    for plan in plans:
        kinds = {fault.kind for fault in plan.faults}
        assert (family_of(plan.seed) is DAMAGED) == (DAMAGE in kinds), "while a message is damaged nothing else fails"


def test_disks_are_lost_in_all_bursts_from_their_number_on() -> None:
    def lost(first: int) -> list[int]:
        plans = [make_plan(seed) for seed in range(first, first + 300)]
        return [sum(fault.kind == DISK for fault in plan.faults) for plan in plans]

    assert max(lost(DISKS_FROM - 300)) == 1 and max(lost(DISKS_FROM)) > 3
    plans = [make_plan(seed) for seed in range(DISKS_FROM, DISKS_FROM + 300)]
    assert any(plan.keeps_ms and any(fault.kind == "disk full" for fault in plan.faults) for plan in plans)


def test_disks_are_slow_restored_and_damaged_from_their_numbers_on() -> None:
    def kinds(first: int) -> set[str]:
        return {fault.kind for seed in range(first, first + 100) for fault in make_plan(seed).faults}

    assert not kinds(COPIES_FROM - 100) & {COPY, SLOW_DISK, TABLE}
    assert kinds(TABLES_FROM - 100) & {COPY, SLOW_DISK, TABLE} == {COPY, SLOW_DISK}
    assert kinds(TABLES_FROM) >= {COPY, SLOW_DISK, TABLE}
    assert not kinds(SLEEPS_FROM - 100) & {SEED, SLEEP}
    assert kinds(SLEEPS_FROM) >= {COPY, SEED, SLEEP, SLOW_DISK, TABLE}
    assert STANDBY not in kinds(STANDBY_FROM - 100)
    assert kinds(STANDBY_FROM) >= {COPY, SEED, SLEEP, SLOW_DISK, STANDBY, TABLE}


def test_messages_wait_for_longer_from_their_number_on() -> None:
    def longest(first: int) -> set[float]:
        return {make_plan(seed).delays_s for seed in range(first, first + 100)}

    assert longest(STANDBY_FROM - 100) == {0.0} and longest(STANDBY_FROM) == {0.0, 30.0, 120.0, 600.0}


def test_a_series_may_be_of_some_families() -> None:
    done = simulate("--seeds", "418000..418011", "--families", "operated")
    assert done.returncode == 0 and "seeds 418000..418011: 1 runs" in last_line(done), done.stdout
    unknown = simulate("--seeds", "1..2", "--families", "dense,nosuch")
    assert unknown.returncode == 2 and "no family nosuch" in unknown.stderr


def test_seeds_have_stops_from_their_number_on_and_one_stops_members_and_clients_in_order() -> None:
    before = [make_plan(seed) for seed in range(STOPS_FROM - 100, STOPS_FROM)]
    assert not any(fault.kind in STOPS for plan in before for fault in plan.faults)
    between = [make_plan(seed) for seed in range(RETENTION_FROM - 100, RETENTION_FROM)]
    assert any(fault.kind in STOPS for plan in between for fault in plan.faults)
    assert not any(plan.keeps_ms for plan in between)
    done = simulate("--seeds", "200001..200001")
    assert done.returncode == 0 and ", stopped in order 2," in last_line(done), done.stdout


def test_most_new_seeds_take_brokers_machines_networks_or_the_lease_store_away() -> None:
    plans = [make_plan(seed) for seed in range(NEW_FROM, NEW_FROM + 1_000)]
    hard = {*KINDS, *STORIES, DISK} - {"kill client", "pause client", "break", "slow", "kill names", "switch"}
    assert sum(any(fault.kind in hard for fault in plan.faults) for plan in plans) > 800


def test_seeds_that_are_older_than_the_mix_have_the_family_of_their_number() -> None:
    named = {each: family_of(each).name for each in (0, 39_999, 40_000, 49_999, 50_000, 69_999, 70_000, 89_999, 90_000)}
    assert [*named.values()] == "plain plain quiet quiet operated operated life life damaged".split()
    assert family_of(MIX_FROM - 1) is DAMAGED
    assert {family_of(seed) for seed in range(MIX_FROM, MIX_FROM + 100)} == {family for family, _ in MIX}
    assert {family.name for family, _ in MIX} == {"dense", "operated", "life", "damaged"}


def test_what_is_left_out_changes_nothing_else() -> None:
    plan = make_plan(1)
    less = plan.without(("f0", "c1"))
    assert less.faults == plan.faults[1:]
    assert [each.number for each in less.clients] == [each.number for each in plan.clients if each.number != 1]
    assert (less.sets, less.timing, less.disk_ms) == (plan.sets, plan.timing, plan.disk_ms)


@pytest.mark.more
def test_the_shrinker_leaves_what_the_failure_needs() -> None:
    done = simulate("--seed", "8", "--lie", "rollback is commit", "--shrink", "--lines", "0")
    assert done.returncode == 1
    assert "was rolled back" in last_line(done)
    assert re.search(r"clients 2 faults 0,", last_line(done)), "a producer and a consumer are enough"
    without = re.search(r"--without ([fc0-9,]+)", done.stdout)
    assert without is not None
    again = simulate("--seed", "8", "--lie", "rollback is commit", "--without", without[1])
    assert last_line(again) == last_line(done), "the command repeats the shortened run"
