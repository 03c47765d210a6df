"""A pipeline file as a graph: where rows come from, which steps they go through, where they end. No Spark."""

from __future__ import annotations

import msgspec

from pyromq.pipeline.jobs.running.pipeline_file import INPUT, TOPIC, PipelineFile, PipelineStep
from pyromq.pipeline.jobs.running.sql_texts import tables_read


class GraphEdge(msgspec.Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """Rows go from one node to another; ``how`` is what is done with them there."""

    from_: str
    to: str
    how: str


def edges_of(pipeline: PipelineFile) -> list[GraphEdge]:
    """The edges in the order of the file."""
    source, last = _source(pipeline), _source(pipeline)
    found: list[GraphEdge] = []
    for number, step in enumerate(pipeline.step):
        name = step_name(step, number)
        named = {each.name for each in pipeline.step[:number] if each.name}
        how = "sql" if step.sql else step.python
        found += [GraphEdge(from_=read, to=name, how=how) for read in _inputs(step, last, named) or [source]]
        last = name
    for number, sink in enumerate(pipeline.sink):
        place = f"topic {sink.topic}" if sink.kind == TOPIC else " ".join(filter(None, (sink.kind, sink.path)))
        found.append(GraphEdge(from_=sink.from_ or last, to=pipeline.sink_name(number), how=place))
    return found


def mermaid(pipeline: PipelineFile) -> str:
    """The graph as Mermaid draws it, for READMEs and wikis."""
    edges = edges_of(pipeline)
    names = list(dict.fromkeys(name for edge in edges for name in (edge.from_, edge.to)))
    ids = {name: f"n{number}" for number, name in enumerate(names)}
    how = {edge.to: edge.how for edge in edges}
    sinks = {pipeline.sink_name(number) for number in range(len(pipeline.sink))}
    lines = ["flowchart LR"]
    for name in names:
        text = _quoted(f"{name}: {how[name]}" if name in how else name)
        left, right = ("[(", ")]") if name not in how or name in sinks else ("[", "]")
        lines.append(f"    {ids[name]}{left}{text}{right}")
    lines += [f"    {ids[edge.from_]} --> {ids[edge.to]}" for edge in edges]
    return "\n".join(lines) + "\n"


def step_name(step: PipelineStep, number: int) -> str:
    return step.name or f"step{number}"


def _source(pipeline: PipelineFile) -> str:
    given = {name.lower(): str(value) for name, value in pipeline.source.items()}
    return given.get("topic") or given.get("topicpattern") or given.get("storepath") or "source"


def _inputs(step: PipelineStep, last: str, named: set[str]) -> list[str]:
    """The nodes that a step reads; a function reads what the step before gave."""
    if step.python:
        return [last]
    read = [name.lower() for name in tables_read(step.sql)]
    views = {INPUT: last, **{name.lower(): name for name in named}}
    return list(dict.fromkeys(views[name] for name in read if name in views))


def _quoted(text: str) -> str:
    return '"' + text.replace('"', "#quot;") + '"'
