"""The ledger of popped messages: brokers are killed all the time, consumers of both protocols pop, nothing is lost."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.sim.commands import last_line, simulate
from tests.sim.lie import Lie
from tests.sim.plan import POPPERS
from tests.sim.pop_ledger import make_pop_plan
from tests.sim.pop_lies import POP_LIES

_COUNTS = r"killed (\d+) \(alone (\d+), masters (\d+)\), acknowledgements of pops: remoting (\d+), gRPC (\d+)"


@pytest.mark.parametrize("seed", ["1", "2"], ids=["alone", "with-replicas"])
def test_nothing_is_lost_and_nothing_acknowledged_comes_again(
    seed: str, record_property: Callable[[str, object], None]
) -> None:
    done = simulate("--pops", "--seeds", seed)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = re.search(_COUNTS, last_line(done))
    assert counts is not None, done.stdout
    killed, alone, masters, by_remoting, by_grpc = map(int, counts.groups())
    assert killed > 25 and masters > 10 and min(by_remoting, by_grpc) > 200, last_line(done)
    assert alone == (killed if seed == "1" else 0), last_line(done)
    record_property("kills with popped messages", killed)
    record_property("promises checked", by_remoting + by_grpc)


@pytest.mark.parametrize("lie", POP_LIES, ids=lambda lie: lie.name.replace(" ", "-"))
def test_a_planted_mistake_is_found(lie: Lie) -> None:
    done = simulate("--pops", "--seed", str(lie.seed), "--lie", lie.name, "--lines", "0")
    assert done.returncode == 1 and "FAILED" in last_line(done), done.stdout + done.stderr


def test_plans_kill_brokers_alone_and_in_sets_beside_consumers_of_both_protocols() -> None:
    plans = [make_pop_plan(seed) for seed in range(20)]
    assert {plan.sets["a"] for plan in plans} == {1, 2, 3}
    for plan in plans:
        assert {client.kind for client in plan.clients} >= {*POPPERS, "plain"}
        assert plan.has_grpc and not plan.clocks, "hand-outs and acknowledgements are compared by one clock"
        assert sum("client" not in fault.kind for fault in plan.faults) > 25
