"""The cluster as a whole: brokers with rates, disks and forecasts, and charts of the last minutes."""

from __future__ import annotations

from math import isclose
from typing import Final

import msgspec

from pyromq.charts import Svg
from pyromq.console.desk import Desk
from pyromq.console.disk_forecast import Forecast, forecast
from pyromq.console.history.keeper import History
from pyromq.console.history.names import CLUSTER_IN, CLUSTER_OUT, broker_number
from pyromq.console.history.spans import TimeSpan
from pyromq.console.views.trends import trend_chart
from pyromq.operate.brokers import BrokerRow

_SAME_SIZE: Final = 1e-3  # samples are means of four bytes, and Apache's brokers round


class BrokerView(BrokerRow, frozen=True, kw_only=True):
    """A broker process, and when its disk will be full."""

    forecast: Forecast

    @property
    def reachable(self) -> bool:
        """Whether it answered the console at the address that it advertises to clients."""
        return not self.problem

    @property
    def disk_state(self) -> str:
        return "bad" if self.disk_percent >= 85 else "warning" if self.disk_percent >= 75 else "ok"

    @property
    def role(self) -> str:
        return "master" if self.number == 0 else f"replica {self.number}"


class ClusterView(msgspec.Struct, frozen=True, kw_only=True):
    nameservers: str
    brokers: list[BrokerView]
    put_rate: float
    get_rate: float
    messages_today: int
    problem: str = ""


async def cluster_view(desk: Desk) -> ClusterView:
    sample = await desk.sample()
    return ClusterView(
        nameservers=desk.settings.nameservers,
        brokers=[
            BrokerView(**msgspec.structs.asdict(each), forecast=forecast(free_before(desk.history, each), each))
            for each in sample.brokers
        ],
        put_rate=sample.put_rate,
        get_rate=sample.get_rate,
        messages_today=sum(each.messages_today for each in sample.masters),
        problem=sample.problem,
    )


def free_before(history: History, now: BrokerRow) -> list[tuple[int, float]]:
    """Free bytes of a broker's disk over the longest time that is known, while it had the size that it has now."""
    names = broker_number(now.key, "free"), broker_number(now.key, "total")
    known = [[history.points(name, span) for name in names] for span in TimeSpan]
    free, totals = max(known, key=lambda lines: lines[0][-1][0] - lines[0][0][0] if lines[0] else 0)
    same = {at for at, total in totals if total is not None and isclose(total, now.disk_total, rel_tol=_SAME_SIZE)}
    return [(at, each) for at, each in free if each is not None and at in same]


def rates_chart(desk: Desk, span: TimeSpan) -> Svg:
    """Messages in and out; empty until there are two samples."""
    return trend_chart(desk, span, "Messages a second", {"in": CLUSTER_IN, "out": CLUSTER_OUT})
