"""A pipeline described in a file, TOML or YAML: a source, steps, sinks. Parsed and checked before Spark is started.

    name = "paid-orders"
    checkpoint = "checkpoints"

    [source]
    topic = "orders"

    [[step]]
    sql = "SELECT * FROM input WHERE tags = 'paid'"

    [[sink]]
    kind = "parquet"
    path = "paid"

YAML has the same names: lists ``step`` and ``sink``. Paths are relative to the file. All mistakes are reported at once,
each with its place in the file.
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from pyromq.errors import ConfigError
from pyromq.pipeline.core.errors import OptionError
from pyromq.pipeline.core.keywords import did_you_mean
from pyromq.pipeline.core.option_texts import option_text
from pyromq.pipeline.core.options import SourceOptions, Use, nameservers_known_here, parse_options
from pyromq.pipeline.jobs.common.errors import PipelineFileError
from pyromq.pipeline.jobs.common.patching import find_function
from pyromq.pipeline.jobs.running.environment import filled_in
from pyromq.pipeline.jobs.running.file_mistakes import FileMistakes, read_struct, repeated_keys
from pyromq.pipeline.jobs.running.sql_texts import sql_mistake
from pyromq.pipeline.sink.options import parse_sink_options

Mode = Literal["once", "follow", "batch"]
TOPIC, CONSOLE, NOOP = "topic", "console", "noop"
FILES: Final = ("parquet", "orc", "json", "csv", "delta")
KINDS: Final = (TOPIC, *FILES, CONSOLE, NOOP)
INPUT: Final = "input"
_is_name = re.compile(r"[A-Za-z_]\w*").fullmatch
_span = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)").fullmatch
_REACHING: Final = ("nameserver", "namespace", "accesskey", "secretkey", "securitytoken")
_TOO_DEEP: Final = "its values are nested too deeply: a pipeline file has tables and lists of plain values"
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class PipelineStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``sql`` reads the view ``input`` (what the step before gave) and views of named steps; ``python`` is a
    function of a DataFrame that returns one, as ``module:function``.
    """

    sql: str = ""
    python: str = ""
    name: str = ""


class Sink(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"from_": "from"}):
    """``from`` is the name of a step, the last one without."""

    kind: str
    name: str = ""
    from_: str = ""
    path: str = ""
    topic: str = ""
    partition_by: tuple[str, ...] = ()
    options: dict[str, str | int | float | bool] = {}


class Watermark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How late rows may be, by a column of the source: Spark then forgets the state of what is older."""

    column: str
    delay: str


class ExpectedRows(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows that a sink or a step gets; without both, the last step."""

    rows: tuple[dict[str, Any], ...]
    sink: str = ""
    step: str = ""


class PipelineCase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows of the source and what must become of them; for ``pyromq pipeline test``."""

    name: str
    input: tuple[dict[str, Any], ...]
    expect: tuple[ExpectedRows, ...]


class PipelineFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``mode``: once reads what there is and remembers where it was, follow goes on, batch reads without memory.

    ``one_read``: the source is read once for all sinks, and steps see a batch at a time.
    """

    name: str
    source: dict[str, str | int | float | bool]
    sink: tuple[Sink, ...]
    step: tuple[PipelineStep, ...] = ()
    mode: Mode = "once"
    every: str = "10s"
    checkpoint: str = ""
    spark: dict[str, str | int | float | bool] = {}
    watermark: Watermark | None = None
    one_read: bool = False
    test: tuple[PipelineCase, ...] = ()

    @property
    def every_s(self) -> float:
        found = _span(self.every)
        assert found, "checked when the file was read"
        return float(found[1]) * _UNITS[found[2]]

    def sink_name(self, number: int) -> str:
        return self.sink[number].name or f"sink{number}"

    def checkpoint_of(self, number: int, folder: Path) -> str:
        """Checkpoint folder of a sink; several pipelines may name the same folder."""
        return f"{placed(self.checkpoint, folder)}/{self.name}/{self.sink_name(number)}"

    def checkpoint_of_all(self, folder: Path) -> str:
        """Checkpoint folder of the query that reads for all sinks."""
        return f"{placed(self.checkpoint, folder)}/{self.name}/one_read"

    @property
    def group_of_all(self) -> str:
        return str(self.source.get("group", self.name))

    def group_of(self, number: int) -> str:
        """Sinks are queries of their own, so each has its own progress."""
        group = self.group_of_all
        return group if len(self.sink) == 1 else f"{group}-{self.sink_name(number)}"

    def source_options(self, group: str) -> dict[str, str]:
        given = {**self.source, **({"group": group} if self.mode != "batch" else {})}
        if self.mode != "batch" and not any(name.lower().startswith("starting") for name in given):
            given["startingOffsets"] = "earliest"
        return {name: option_text(value) for name, value in given.items()}

    def sink_options(self, sink: Sink) -> dict[str, str]:
        """Options of a sink that writes to a topic: brokers are reached as those of the source are."""
        given = {**{name: value for name, value in self.source.items() if _is_reaching(name)}, **sink.options}
        return {**{name: option_text(value) for name, value in given.items()}, "topic": sink.topic}


def placed(path: str, folder: Path) -> str:
    """A path of the file, which lies in ``folder``; one with a scheme (``s3://…``) stays as it is."""
    return path.rstrip("/") if "://" in path else str(folder / path)


def _is_reaching(option: str) -> bool:
    return option.lower() in _REACHING or option.lower().startswith("tls")


def read_pipeline_file(path: Path) -> PipelineFile:
    """With functions of Python steps looked for beside it. Raises PipelineFileError, which lists all mistakes."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise PipelineFileError(str(path), f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PipelineFileError(str(path), "it is not text in UTF-8") from error
    is_yaml = path.suffix.lower() in (".yaml", ".yml")
    return parse_pipeline(text, where=str(path), is_yaml=is_yaml, folder=path.absolute().parent)


def parse_pipeline(
    text: str, *, where: str = "pipeline", is_yaml: bool = False, folder: Path | None = None
) -> PipelineFile:
    """``folder`` is where modules of Python steps may lie; without it their functions are not looked for.

    Raises PipelineFileError, which lists all mistakes.
    """
    mistakes = FileMistakes(where)
    raw = _from_yaml(text, where, mistakes) if is_yaml else _from_toml(text, where)
    raw = filled_in(raw, os.environ, folder or Path(), mistakes)
    found = read_struct(PipelineFile, raw, "", mistakes)
    if found is not None:
        _check(found, mistakes)
        if folder is not None:
            _check_functions(found, folder, mistakes)
    mistakes.raise_any()
    assert found is not None
    return found


def _from_toml(text: str, where: str) -> Any:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PipelineFileError(where, f"it is not TOML: {error}") from error
    except RecursionError as error:
        raise PipelineFileError(where, _TOO_DEEP) from error


def _from_yaml(text: str, where: str, mistakes: FileMistakes) -> Any:
    try:
        found = msgspec.yaml.decode(text)
        for place, reason in repeated_keys(text):
            mistakes.add(place, reason)
    except ImportError as error:
        raise PipelineFileError(where, "YAML needs a package: pip install pyyaml. TOML needs none") from error
    except msgspec.DecodeError as error:
        raise PipelineFileError(where, f"it is not YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise PipelineFileError(where, _TOO_DEEP) from error
    return found


def _check(found: PipelineFile, mistakes: FileMistakes) -> None:
    if not _is_name(found.name.replace("-", "_")):
        mistakes.add("name", f"{found.name!r} is not a name: use letters, digits, - and _")
    if not _span(found.every):
        mistakes.add("every", f"{found.every!r} is not a time span such as 500ms, 10s or 5m")
    if not found.sink:
        mistakes.add("sink", "there is no sink: add [[sink]]")
    if found.mode != "batch" and not found.checkpoint:
        mistakes.add("checkpoint", f"mode {found.mode} needs a folder to remember its progress in")
    if found.one_read and found.watermark is not None and found.mode != "batch":
        mistakes.add(
            "watermark", "with one_read steps see one batch at a time and remember nothing; leave one of them out"
        )
    source = _check_source(found, mistakes)
    names = _check_steps(found, mistakes)
    for number, sink in enumerate(found.sink):
        _check_sink(found, sink, f"sink[{number}]", names, mistakes)
        if source is not None and sink.kind == TOPIC and sink.topic:
            _check_circle(found, sink, f"sink[{number}].topic", source, mistakes)
    sink_names = [found.sink_name(number) for number in range(len(found.sink))]
    for number, name in enumerate(sink_names):
        if name in sink_names[:number]:
            mistakes.add(f"sink[{number}].name", f"two sinks are named {name}")
        if name == "one_read":
            mistakes.add(f"sink[{number}].name", "one_read is the checkpoint of all sinks together")
    _check_cases(found, names, set(sink_names), mistakes)


def _check_cases(found: PipelineFile, steps: set[str], sinks: set[str], mistakes: FileMistakes) -> None:
    for number, case in enumerate(found.test):
        for which, expected in enumerate(case.expect):
            place = f"test[{number}].expect[{which}]"
            if expected.sink and expected.step:
                mistakes.add(place, "it is about either a sink or a step")
            if expected.sink and expected.sink not in sinks:
                mistakes.add(f"{place}.sink", f"there is no sink {expected.sink!r}: {', '.join(sorted(sinks))}")
            if expected.step and expected.step not in steps:
                mistakes.add(f"{place}.step", f"there is no step named {expected.step!r}")


def _check_source(found: PipelineFile, mistakes: FileMistakes) -> SourceOptions | None:
    if mistakes.has("source"):
        return None
    group = found.group_of(0) if found.sink else found.name
    if not _is_name(group.replace("-", "_")) and "group" not in found.source:
        group = "any"  # the name is wrong, which is reported
    try:
        return parse_options(found.source_options(group), Use.BATCH if found.mode == "batch" else Use.STREAM)
    except OptionError as error:
        for option, reason in error.mistakes:
            mistakes.add(f"source.{option}", reason)
    except ConfigError as error:
        mistakes.add("source", str(error))
    return None


def _check_steps(found: PipelineFile, mistakes: FileMistakes) -> set[str]:
    names: set[str] = set()
    for number, step in enumerate(found.step):
        place = f"step[{number}]"
        if bool(step.sql) == bool(step.python):
            mistakes.add(place, "it needs either sql or python")
        if step.python and step.python.count(":") != 1:
            mistakes.add(f"{place}.python", f"{step.python!r} is not module:function")
        later = {each.name for each in found.step[number:]} - names - {"", INPUT}
        if step.sql and (reason := sql_mistake(step.sql, {INPUT, *names}, later)):
            mistakes.add(f"{place}.sql", reason)
        if step.name and (not _is_name(step.name) or step.name == INPUT):
            mistakes.add(f"{place}.name", f"{step.name!r} is not a name for a view")
        if step.name in names:
            mistakes.add(f"{place}.name", f"there already is a step {step.name}")
        names |= {step.name} - {""}
    return names


def _check_functions(found: PipelineFile, folder: Path, mistakes: FileMistakes) -> None:
    for number, step in enumerate(found.step):
        place = f"step[{number}].python"
        if step.python and not mistakes.has(place):
            try:
                find_function(step.python, folder=folder)
            except ConfigError as error:
                mistakes.add(place, str(error))


def _check_sink(found: PipelineFile, sink: Sink, place: str, names: set[str], mistakes: FileMistakes) -> None:
    if sink.name and not _is_name(sink.name.replace("-", "_")):
        mistakes.add(f"{place}.name", f"{sink.name!r} is not a name: use letters, digits, - and _")
    if sink.kind not in KINDS:
        hint = did_you_mean(sink.kind, KINDS)
        mistakes.add(f"{place}.kind", f"{sink.kind!r} is not one of {', '.join(KINDS)}{f'; {hint}' if hint else ''}")
    if sink.from_ and sink.from_ not in names:
        known = f"the named steps are {', '.join(sorted(names))}" if names else "no step has a name"
        mistakes.add(f"{place}.from", f"there is no step named {sink.from_!r}; {known}")
    if sink.kind in FILES and not sink.path:
        mistakes.add(f"{place}.path", "say which folder to write to")
    if sink.kind == TOPIC and not sink.topic:
        mistakes.add(f"{place}.topic", "say which topic to write to")
    if sink.partition_by and sink.kind in KINDS and sink.kind not in FILES:
        mistakes.add(f"{place}.partition_by", f"a sink of kind {sink.kind} has no partitions")
    if sink.kind == TOPIC and sink.topic:
        _check_topic_options(found, sink, place, mistakes)


def _check_topic_options(found: PipelineFile, sink: Sink, place: str, mistakes: FileMistakes) -> None:
    is_batch = found.mode == "batch"
    own = {} if is_batch else {"checkpointLocation": found.checkpoint or "any"}
    try:
        parse_sink_options({**found.sink_options(sink), **own}, Use.BATCH if is_batch else Use.STREAM)
    except OptionError as error:
        for option, reason in error.mistakes:
            shared = option.lower() not in {name.lower() for name in sink.options} and mistakes.has(f"source.{option}")
            where = f"{place}.topic" if option == "topic" else f"{place}.options.{option}"
            if not shared:  # what the source says of reaching brokers was reported there
                mistakes.add(where, reason)


def _check_circle(found: PipelineFile, sink: Sink, place: str, source: SourceOptions, mistakes: FileMistakes) -> None:
    """A pipeline that reads what it writes never ends, or doubles its topic with each run."""
    reached = {name.lower(): text for name, text in found.sink_options(sink).items()}
    there = nameservers_known_here(reached.get("nameserver", "")), reached.get("namespace", "")
    if source.store_folders or there != (nameservers_known_here(source.nameserver), source.namespace):
        return
    matches = re.compile(source.topic_pattern).fullmatch if source.topic_pattern else None
    for topic in (name.strip() for name in sink.topic.split(",")):
        if topic in source.topics or (matches and matches(topic)):
            reason = f"the source reads {topic}, so what is written there would be read again, endlessly"
            mistakes.add(place, f"{reason}; write to another topic")
