"""One simulation: a plan, a world made of it, its end, and what the judges say."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final
from unittest.mock import patch

from pyromq.broker.popping import keeping
from pyromq.errors import MQError
from pyromq.testing.faulty_disk import Crashed
from tests.sim import operators_view
from tests.sim.clients import SimClient, make_topics, scratch_folder
from tests.sim.cluster import Cluster, World
from tests.sim.credentials import signed_by_root
from tests.sim.faults import Faults
from tests.sim.histories import Operation, by_queue
from tests.sim.history import History
from tests.sim.judges import Verdict, judge_at_the_end
from tests.sim.lease_access import reached
from tests.sim.loop import Numbered, SimLoop
from tests.sim.network import Network
from tests.sim.patches import simulated
from tests.sim.plan import BEGIN_S, LIVENESS, Plan
from tests.sim.rights import Guests, make_clients
from tests.sim.story import Story
from tests.sim.witness import Witness

_TOPICS_S: Final = 60.0  # for the cluster to be whole
_PROMPT_S: Final = 2.0  # of work in a whole cluster, in plans that begin to fail at once
_NEVER_FREED: Final[list[SimLoop]] = []  # the last one of a process


@dataclass
class Outcome:
    plan: Plan
    hash: str
    verdict: Verdict
    simulated_s: float
    cpu_s: float
    counts: dict[str, int] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    queues: dict[str, list[Operation]] = field(default_factory=dict)  # histories, by queue

    @property
    def is_ok(self) -> bool:
        return not self.verdict.failures

    def line(self) -> str:
        sent, read = self.counts.get("acknowledged", 0), self.counts.get("got", 0)
        facts = f"{self.plan.summary()}, {self.simulated_s:.0f} s, sent {sent}, read {read}"
        end = "ok" if self.is_ok else f"FAILED, {self.verdict.failures[0]}"
        return f"seed {self.plan.seed}: {facts}, hash {self.hash}: {end}"

    def record(self) -> dict[str, Any]:
        """What a log of many seeds keeps of this one."""
        return {
            "seed": self.plan.seed,
            "mode": self.plan.mode,
            "dropped": self.plan.dropped,
            "hash": self.hash,
            "simulated_s": round(self.simulated_s, 3),
            "cpu_s": round(self.cpu_s, 3),
            "counts": {name: self.counts.get(name, 0) for name in ("acknowledged", "got", "fault")},
            "failures": self.verdict.failures,
        }


class _Defects(logging.Handler):
    """Errors with a traceback: nothing that happens outside of a broker may be a surprise inside."""

    def __init__(self, found: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._found = found

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, Crashed | MQError | OSError):
            place = error.__traceback__
            while place is not None and place.tb_next is not None:
                place = place.tb_next
            where = f"{place.tb_frame.f_code.co_filename}:{place.tb_lineno}" if place is not None else ""
            self._found.append(f"{record.name}: {record.getMessage()}: {error!r} at {where}")


def run(plan: Plan, *, is_last: bool = False) -> Outcome:
    """Runs the plan to its end. The caller's process must have fixed hashes (``commands.require_fixed_hashes``).

    ``is_last``: the process ends after it, and what the simulation leaves in memory with it.
    """
    cpu_s, was_on, told = time.process_time(), gc.isenabled(), sys.unraisablehook
    Numbered.begin()
    gc.disable()  # finalisers run between simulations, never inside of one
    sys.unraisablehook = lambda _: None  # what the last blocks of tasks that never end would like to say
    loop = SimLoop(Random(f"{plan.seed}/loop"))
    try:
        outcome = _run(plan, loop)
        if is_last:
            _NEVER_FREED.append(loop)
        else:
            _free(loop)
    finally:
        sys.unraisablehook = told
        if was_on and not is_last:
            gc.enable()
    outcome.cpu_s = time.process_time() - cpu_s
    return outcome


def _free(loop: SimLoop) -> None:
    loop.forget_all()
    asyncio.set_event_loop(None)  # else last blocks of tasks begin others on a loop that never runs, and keeps them
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # coroutines of the dead, which nobody will await
        gc.collect()


def _run(plan: Plan, loop: SimLoop) -> Outcome:
    history = History()
    history.now_s = lambda: loop.true_s
    network = loop.network = Network(loop, Random(f"{plan.seed}/network"), history.digest)
    network.delay_ms = plan.delay_ms
    world = World(loop, network, history, plan)
    defects: list[str] = []
    handler = _Defects(defects)
    logging.getLogger("pyromq").addHandler(handler)
    try:
        with (
            scratch_folder() as scratch,
            simulated(loop, Random(f"{plan.seed}/entropy"), plan.tick_s),
            signed_by_root(plan.has_access),
            patch.object(keeping, "_SAVE_MS", plan.pops_saved_ms),
        ):
            cluster = Cluster(world)
            with reached(cluster.leases):
                try:
                    verdict = loop.run_until_complete(_live(world, cluster, Path(scratch)))
                except Exception as error:  # of the simulator, or of what it looked at
                    verdict = Verdict([f"the simulation broke: {error!r}"])
    finally:
        logging.getLogger("pyromq").removeHandler(handler)
    verdict.failures += [f"a defect: {each}" for each in defects]
    verdict.failures += [f"an error that nobody caught: {each}" for each in loop.errors if "Crashed" not in each]
    counts = dict(history.counts)
    counts["acknowledged"] = sum(each.status == "ok" for each in history.sent.values())
    counts["turns"] = loop.turns
    return Outcome(plan, history.hash(), verdict, loop.true_s, 0.0, counts, history.lines, by_queue(history))


async def _live(world: World, cluster: Cluster, scratch: Path) -> Verdict:
    plan, loop = world.plan, world.loop
    verdict = Verdict()
    cluster.start()
    clients = [SimClient(world, each, cluster.nameserver, scratch) for each in plan.clients]
    faults = Faults(world, cluster, clients)
    ready = loop.create_future()

    async def prepare() -> None:
        if plan.has_access:
            await make_clients(cluster.nameserver, "10.0.4.1")
        await make_topics(cluster.nameserver, "10.0.4.1", plan.sets, has_access=plan.has_access)
        loop.call_for(None, loop.true_s, lambda: ready.done() or ready.set_result(None))

    loop.spawn(faults._operator, prepare(), "prepare")
    try:
        async with asyncio.timeout(_TOPICS_S):
            await ready
            while not all(_is_whole(cluster, name) for name in plan.sets):  # noqa: ASYNC110 - looked at from outside
                await asyncio.sleep(0.25)
    except TimeoutError:
        errors = "; ".join(each.start_error for each in cluster.members if each.start_error)
        verdict.fail(f"the cluster was not whole within a minute, without any fault: {errors}".rstrip(": "))
        return verdict
    world.history.note("whole")
    world.witness = Witness(world, cluster, faults, verdict)
    if plan.has_access:
        faults.guests = Guests(world, cluster, faults, verdict)
    for client in clients:
        client.start()
    begins_s = loop.true_s + _PROMPT_S - BEGIN_S if plan.is_prompt else 0.0
    shift_s = begins_s if plan.is_prompt else max(0.0, loop.true_s - 8.0)
    story = Story(world, cluster, clients, faults, verdict)
    faults.begin(begins_s)
    await story.burst_until(plan.faults_end_s + shift_s)
    for burst, quiet in enumerate(plan.quiet, start=1):
        await story.quiet(quiet.lasts_s)
        faults.begin_burst(burst)
        await story.burst_until(loop.true_s + quiet.burst_s)
    if plan.mode == LIVENESS and not verdict.failures:
        await story.heal(is_last=True)
        if not verdict.failures:
            await asyncio.sleep(plan.watch_s)
            await _ask_operators(world, cluster, faults, verdict)
    judge_at_the_end(world, cluster, clients, faults, verdict)
    return verdict


async def _ask_operators(world: World, cluster: Cluster, faults: Faults, verdict: Verdict) -> None:
    loop, seen, is_done = world.loop, operators_view.Seen(), world.loop.create_future()

    async def look() -> None:
        await operators_view.look(world, cluster, seen)
        loop.call_for(None, loop.true_s, lambda: is_done.done() or is_done.set_result(None))

    await asyncio.sleep(operators_view.USUAL_SETTLE_S if world.plan.is_usual else operators_view.SETTLE_S)
    loop.spawn(faults._operator, look(), "doctor")
    await is_done
    was_redriven = bool(world.history.counts["redriven"])
    wrong = operators_view.compare(
        world, cluster, seen, was_redriven=was_redriven, was_set_back=faults.was_ever_set_back
    )
    for each in wrong:
        verdict.fail(each)


def _is_whole(cluster: Cluster, name: str) -> bool:
    """One master, and the lease names every member."""
    members = cluster.of_set(name)
    if not cluster.masters(name):
        return False
    if len(members) == 1:
        return True
    record = cluster.record_of(name)
    return record is not None and len(record.in_sync) == len(members)
