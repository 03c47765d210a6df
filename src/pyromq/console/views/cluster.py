"""The cluster as a whole: brokers with rates, disks and forecasts, and charts of the last minutes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pyromq.charts import Series, Svg, line_chart
from pyromq.console.desk import Desk
from pyromq.console.disk_forecast import Forecast, forecast
from pyromq.console.sampling import EVERY_MS, ClusterSample, gaps
from pyromq.operate.brokers import BrokerRow


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
    sample, past_of = await desk.sample(), desk.sampler.past_of
    return ClusterView(
        nameservers=desk.settings.nameservers,
        brokers=[
            BrokerView(**msgspec.structs.asdict(each), forecast=forecast(past_of(each.key), each))
            for each in sample.brokers
        ],
        put_rate=sample.put_rate,
        get_rate=sample.get_rate,
        messages_today=sum(each.messages_today for each in sample.masters),
        problem=sample.problem,
    )


def rates_chart(samples: Sequence[ClusterSample], every_ms: int = EVERY_MS) -> Svg:
    """Messages in and out; empty until there are two samples."""
    if len(samples) < 2:
        return Svg()
    holes = gaps(samples, every_ms)
    points_in: list[tuple[int, float | None]] = []
    points_out: list[tuple[int, float | None]] = []
    for each in samples:
        points_in.append((each.time_ms, each.put_rate))
        points_out.append((each.time_ms, each.get_rate))
        if each.time_ms in holes:
            points_in.append((each.time_ms + 1, None))
            points_out.append((each.time_ms + 1, None))
    return line_chart([Series("in", points_in), Series("out", points_out)], "Messages a second, in and out")
