"""Pipelines: streaming queries of Spark, their batches, and their groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from pyromq.charts import Series, Svg, line_chart, spark
from pyromq.console.history.names import group_lag
from pyromq.console.views.pipelines import read_pipelines
from pyromq.console.views.trends import trend_chart
from pyromq.console.web.pages import Nav, Pages
from pyromq.console.web.visit import Drawn, Visit
from pyromq.errors import NotFoundError
from pyromq.operate.query_reports import QueryBatch
from pyromq.wire.codes import ResponseCode

pages = Pages()
_GAP_WAITS: Final = 5  # as long as so many usual waits between batches
_GAP_MS_MIN: Final = 2_000


@pages.page("/pipelines", title="Pipelines", nav=Nav("Consume", order=60, key="p"))
async def pipelines(visit: Visit) -> Drawn:
    found = await read_pipelines(visit.desk)
    sparks = {
        each.report.id: spark([batch.rows for batch in each.report.batches], "Rows of the last batches")
        for each in found.queries
    }
    return Drawn("pipelines.html", {"pipelines": found, "sparks": sparks})


@pages.page("/pipelines/{query}", title="Pipeline")
async def pipeline(visit: Visit) -> Drawn:
    found = await read_pipelines(visit.desk)
    one = next((each for each in found.queries if each.report.id == visit.path["query"]), None)
    if one is None:
        remark = f"no query {visit.path['query'][:80]} has left a report in {found.folder}"
        raise NotFoundError(code=ResponseCode.NO_MESSAGE, remark=remark)
    lags = {group.group: group_lag(group.group) for group in one.groups if not group.problem}
    model = {
        "pipeline": one,
        "rows": batch_chart(one.report.batches, "Rows of each batch", lambda batch: batch.rows),
        "took": batch_chart(one.report.batches, "Seconds of each batch", lambda batch: batch.took_ms / 1000),
        "lag": trend_chart(visit.desk, visit.span, "Lag of its groups", lags, "messages") if lags else "",
        "span": visit.span,
        "dead": sum(max(0, group.dead) for group in one.groups),
        "lags": sum(max(0, group.lag) for group in one.groups),
    }
    return Drawn("pipeline.html", model, title=one.report.name or one.report.id)


def batch_chart(batches: Sequence[QueryBatch], title: str, value: Callable[[QueryBatch], float]) -> Svg:
    """A number of each batch at the time when it began, with a gap where none ran for long; empty with one batch."""
    if len(batches) < 2:
        return Svg()
    waits = sorted(after.time_ms - before.time_ms for before, after in pairwise(batches))
    usual_ms = waits[len(waits) // 2]
    points: list[tuple[int, float | None]] = []
    for batch in batches:
        if points and batch.time_ms - points[-1][0] > _GAP_WAITS * max(usual_ms, _GAP_MS_MIN):
            points.append((batch.time_ms - 1, None))
        points.append((batch.time_ms, value(batch)))
    return line_chart([Series(title, points)], title)
