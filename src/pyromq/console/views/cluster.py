"""The cluster as a whole: brokers with rates, disks and forecasts, and charts of the last minutes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pyromq.charts import Series, Svg, line_chart
from pyromq.console.broker_samples import BrokerSample, Forecast, forecast
from pyromq.console.desk import Desk
from pyromq.console.sampling import EVERY_MS, ClusterSample, gaps


class BrokerView(msgspec.Struct, frozen=True, kw_only=True):
    """A broker process. ``reachable``: it answered the console at the address that it advertises to clients."""

    broker: str
    cluster: str
    number: int
    address: str
    reachable: bool
    problem: str
    version: str
    in_rate: float
    out_rate: float
    messages_today: int
    disk_percent: float
    disk_free: int
    disk_total: int
    forecast: Forecast
    behind_bytes: int | None
    """Of a replica: how much of its master's log it lacks; None where it is not known."""

    @property
    def disk_state(self) -> str:
        return "bad" if self.disk_percent >= 85 else "warning" if self.disk_percent >= 75 else "ok"

    @property
    def role(self) -> str:
        return "master" if self.number == 0 else f"replica {self.number}"


class ClusterView(msgspec.Struct, frozen=True, kw_only=True):
    nameservers: str
    brokers: list[BrokerView]
    in_rate: float
    out_rate: float
    messages_today: int
    problem: str = ""


async def cluster_view(desk: Desk) -> ClusterView:
    sample = await desk.sample()
    ends = {each.broker: each.log_end for each in sample.masters if not each.problem}
    return ClusterView(
        nameservers=desk.settings.nameservers,
        brokers=[_view(desk, each, ends.get(each.broker)) for each in sample.brokers],
        in_rate=sample.in_rate,
        out_rate=sample.out_rate,
        messages_today=sum(each.messages_today for each in sample.masters),
        problem=sample.problem,
    )


def _view(desk: Desk, each: BrokerSample, master_end: int | None) -> BrokerView:
    knows_both = not each.is_master and master_end is not None and not each.problem
    return BrokerView(
        broker=each.broker,
        cluster=each.cluster,
        number=each.number,
        address=each.address,
        reachable=not each.problem,
        problem=each.problem,
        version=each.version,
        in_rate=each.in_rate,
        out_rate=each.out_rate,
        messages_today=each.messages_today,
        disk_percent=each.disk.percent,
        disk_free=each.disk.free,
        disk_total=each.disk.total,
        forecast=forecast(desk.sampler.past_of(each.key), each),
        behind_bytes=max(0, (master_end or 0) - each.log_end) if knows_both else None,
    )


def rates_chart(samples: Sequence[ClusterSample], every_ms: int = EVERY_MS) -> Svg:
    """Messages in and out; empty until there are two samples."""
    if len(samples) < 2:
        return Svg()
    holes = gaps(samples, every_ms)
    points_in: list[tuple[int, float | None]] = []
    points_out: list[tuple[int, float | None]] = []
    for each in samples:
        points_in.append((each.time_ms, each.in_rate))
        points_out.append((each.time_ms, each.out_rate))
        if each.time_ms in holes:
            points_in.append((each.time_ms + 1, None))
            points_out.append((each.time_ms + 1, None))
    return line_chart([Series("in", points_in), Series("out", points_out)], "Messages a second, in and out")
