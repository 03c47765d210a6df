"""Label budgets: what goes beyond them is one series, and no counter ever falls."""

from __future__ import annotations

from random import Random

from pyromq.metrics.budget import OVERFLOW, LabelBudget
from pyromq.metrics.declared import Metric, MetricKind
from pyromq.metrics.samples import Distribution, Family, Value

COUNTER = Metric(name="a_total", kind=MetricKind.COUNTER, help="", source="", labels=("topic", "group"))
GAUGE = Metric(name="g", kind=MetricKind.GAUGE, help="", source="", labels=("topic",))
HISTOGRAM = Metric(name="h", kind=MetricKind.HISTOGRAM, help="", source="", labels=("topic",), buckets=(1,))


def told(budget: LabelBudget, metric: Metric, values: dict[str, Value]) -> dict[str, Value]:
    width = len(metric.labels)
    family = budget.limited(Family(metric, [((name,) * width, value) for name, value in values.items()]))
    assert all(len(labels) == width for labels, _ in family.samples)
    return {labels[0]: value for labels, value in family.samples}


def test_what_fits_is_shown_as_it_is() -> None:
    budget = LabelBudget(2)
    assert told(budget, COUNTER, {"a": 1, "b": 2}) == {"a": 1, "b": 2} and budget.dropped == {}


def test_the_rest_is_added_up() -> None:
    budget = LabelBudget(2)
    assert told(budget, COUNTER, {"a": 1, "b": 2, "c": 4, "d": 8}) == {"a": 1, "b": 2, OVERFLOW: 12}
    assert budget.dropped == {"a_total": 2}
    assert told(budget, GAUGE, {"a": 1, "b": 2, "c": 4}) == {"a": 1, "b": 2, OVERFLOW: 4}
    assert told(budget, GAUGE, {"a": 1, "b": 2, "c": 3}) == {"a": 1, "b": 2, OVERFLOW: 3}, "gauges may fall"


def test_who_is_shown_stays_shown() -> None:
    budget = LabelBudget(2)
    told(budget, COUNTER, {"a": 1, "b": 1, "c": 1})
    assert set(told(budget, COUNTER, {"c": 2, "b": 2, "a": 2})) == {"a", "b", OVERFLOW}


def test_the_overflow_of_a_counter_never_falls() -> None:
    budget = LabelBudget(1)
    assert told(budget, COUNTER, {"a": 1, "b": 5, "c": 7})[OVERFLOW] == 12
    assert told(budget, COUNTER, {"a": 1, "b": 6})[OVERFLOW] == 12, "c was deleted"
    assert told(budget, COUNTER, {"a": 1, "b": 8})[OVERFLOW] == 14
    assert told(budget, COUNTER, {"b": 9, "c": 1}) == {"b": 9, OVERFLOW: 14}, "b moved up, a new c began"
    assert told(budget, COUNTER, {"b": 9, "c": 3})[OVERFLOW] == 16


def test_random_lives_of_topics_never_let_a_told_counter_fall() -> None:
    seed = 20_261_116
    print("seed", seed)
    rng, budget, values, last = Random(seed), LabelBudget(3), dict[str, Value](), dict[str, Value]()
    for _ in range(2_000):
        name = f"t{rng.randrange(8)}"
        if rng.random() < 0.05:
            values.pop(name, None)
        else:
            known = values.get(name, 0)
            assert isinstance(known, int)
            values[name] = known + rng.randrange(5)
        now = told(budget, COUNTER, values)
        if OVERFLOW in now and OVERFLOW in last:
            assert now[OVERFLOW] >= last[OVERFLOW]  # type: ignore[operator]
        last = now


def test_distributions_add_up_and_do_not_fall() -> None:
    budget = LabelBudget(1)
    one = Distribution((1, 2), 5.0)
    assert told(budget, HISTOGRAM, {"a": one, "b": one, "c": one})[OVERFLOW] == Distribution((2, 4), 10.0)
    assert told(budget, HISTOGRAM, {"a": one, "b": one})[OVERFLOW] == Distribution((2, 4), 10.0)
