"""Pipelines: streaming queries of Spark, their batches, and their groups."""

from __future__ import annotations

from pyromq.charts import Bar, column_chart, spark
from pyromq.console.views.pipelines import read_pipelines
from pyromq.console.web.pages import Nav, Pages
from pyromq.console.web.visit import Drawn, Visit
from pyromq.errors import NotFoundError
from pyromq.wire.codes import ResponseCode
from pyromq.wording import shown_span, shown_time

pages = Pages()


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
    batches = one.report.batches
    rows = [Bar(shown_time(each.time_ms)[11:19], [each.rows], f"{each.rows} rows") for each in batches]
    took = [Bar(shown_time(each.time_ms)[11:19], [each.took_ms], shown_span(each.took_ms), 1) for each in batches]
    model = {
        "pipeline": one,
        "rows": column_chart(rows, "Rows of the last batches", names_max=6),
        "took": column_chart(took, "Milliseconds that the last batches took", names_max=6),
    }
    return Drawn("pipeline.html", model, title=one.report.name or one.report.id)
