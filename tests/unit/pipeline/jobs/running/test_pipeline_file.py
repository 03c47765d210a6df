"""Pipelines as files: what is understood, and what mistakes are told."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pyromq.pipeline.jobs.common.errors import PipelineFileError
from pyromq.pipeline.jobs.running.pipeline_file import parse_pipeline, read_pipeline_file
from tests.unit.pipeline.jobs.running.pipelines import HEAD, SINK

SELECT = 'sql = "SELECT 1 FROM input"'
TO_TOPIC = '[[sink]]\nkind = "topic"\ntopic = "t"\n[sink.options]\n'


def test_a_pipeline_is_understood() -> None:
    found = parse_pipeline(
        """
        name = "paid-orders"
        mode = "follow"
        every = "1.5s"
        checkpoint = "c"
        [source]
        topic = "orders"
        maxOffsetsPerTrigger = 1000
        failOnDataLoss = false
        [[step]]
        sql = "SELECT 1 FROM input"
        name = "one"
        [[sink]]
        kind = "parquet"
        from = "one"
        path = "out"
        partition_by = ["date"]
        [[sink]]
        name = "copy"
        kind = "topic"
        topic = "t"
        """
    )
    assert found.every_s == 1.5 and found.sink[0].from_ == "one" and found.sink[0].partition_by == ("date",)
    assert [found.group_of(number) for number in (0, 1)] == ["paid-orders-sink0", "paid-orders-copy"]
    assert found.source_options("g") == {
        "topic": "orders", "maxOffsetsPerTrigger": "1000", "failOnDataLoss": "false", "group": "g",
        "startingOffsets": "earliest",
    }  # fmt: skip


def test_every_sink_of_every_pipeline_has_its_checkpoint() -> None:
    found = parse_pipeline(HEAD + SINK + SINK.replace("noop", 'noop"\nname = "files'))
    assert [found.checkpoint_of(number, Path("/here")) for number in (0, 1)] == ["/here/c/p/sink0", "/here/c/p/files"]
    elsewhere = parse_pipeline(HEAD.replace('"c"', '"s3://bucket/c/"') + SINK)
    assert elsewhere.checkpoint_of(0, Path("/here")) == "s3://bucket/c/p/sink0"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (HEAD + SINK + 'name = "../x"', "sink[0].name: '../x' is not a name"),
        ("name = ", "it is not TOML"),
        ('name = "p"', "source: it is missing"),
        (HEAD, "sink: it is missing"),
        (HEAD + SINK + "[colour]\nx = 1", "colour: unknown key; its keys are name, source, sink, step, mode"),
        (HEAD + '[[sink]]\nkind = "noop"\npaht = "x"', "sink[0].paht: unknown key; did you mean path?"),
        (HEAD + 'sink = "noop"', "source.sink: the source has no such option"),
        ('sink = "noop"\n' + HEAD, "sink: Expected `array`, got `str`"),
        (HEAD + '[[sink]]\nkind = "noop"\npartition_by = [1]', "sink[0].partition_by[0]: Expected `str`"),
        (HEAD + '[[sink]]\nkind = "paper"', "sink[0].kind: 'paper' is not one of topic, parquet"),
        (HEAD + '[[sink]]\nkind = "parquet"', "sink[0].path: say which folder"),
        (HEAD + '[[sink]]\nkind = "topic"', "sink[0].topic: say which topic"),
        (HEAD + TO_TOPIC + 'mode = "idempotnt"', "sink[0].options.mode: 'idempotnt' is not one of"),
        (HEAD + TO_TOPIC + "batchBites = 1", "sink[0].options.batchBites: the sink has no such option"),
        ('mode = "batch"\n' + HEAD + TO_TOPIC + 'mode = "idempotent"', "sink[0].options.sinkId: a batch write"),
        (HEAD + '[[sink]]\nkind = "noop"\nfrom = "x"', "sink[0].from: there is no step named 'x'"),
        (HEAD + '[[sink]]\nkind = "noop"\npartition_by = ["x"]', "has no partitions"),
        (HEAD + SINK + SINK.replace("noop", 'noop"\nname = "sink0'), "two sinks are named sink0"),
        (HEAD + "[[step]]\n" + SINK, "step[0]: it needs either sql or python"),
        (HEAD + '[[step]]\nsql = "x"\npython = "a:b"\n' + SINK, "step[0]: it needs either sql or python"),
        (HEAD + '[[step]]\npython = "a"\n' + SINK, "step[0].python: 'a' is not module:function"),
        (HEAD + f'[[step]]\n{SELECT}\nname = "input"\n' + SINK, "step[0].name"),
        (HEAD + f'[[step]]\n{SELECT}\nname = "a"\n[[step]]\n{SELECT}\nname = "a"\n' + SINK, "already"),
        (HEAD + '[[step]]\nsql = "SELEC 1"\n' + SINK, "step[0].sql: it begins with 'SELEC'; did you mean SELECT?"),
        (HEAD + TO_TOPIC.replace('"t"', '"orders"'), "sink[0].topic: the source reads orders, so what is written"),
        (HEAD + TO_TOPIC.replace('"t"', '"a, orders"'), "sink[0].topic: the source reads orders"),
        (HEAD.replace("topic =", "topicPattern =") + TO_TOPIC.replace('"t"', '"orders"'), "the source reads orders"),
        ('mode = "batch"\n' + HEAD + TO_TOPIC.replace('"t"', '"orders"'), "the source reads orders"),
        (HEAD.replace("topic =", "topik =") + SINK, "source.topik: the source has no such option; did you mean topic?"),
        (HEAD + "minPartitions = -1\n" + SINK, "source.minPartitions"),
        (HEAD.replace('checkpoint = "c"\n', "") + SINK, "checkpoint: mode once needs a folder"),
        (HEAD.replace('"p"', '"a b"') + SINK, "name: 'a b' is not a name"),
        ('every = "soon"\n' + HEAD + SINK, "every: 'soon' is not a time span"),
        ('mode = "twice"\n' + HEAD + SINK, "mode: 'twice' is not one of once, follow, batch"),
        (
            'one_read = true\nwatermark = {column = "store_time", delay = "1 minute"}\n' + HEAD + SINK,
            "watermark: with one_read steps see one batch at a time",
        ),
        (HEAD + SINK + 'name = "one_read"', "sink[0].name: one_read is the checkpoint of all sinks"),
        ("name = " + "[" * 10_000 + "]" * 10_000, "its values are nested too deeply"),
        ("name = " + "{a=" * 10_000 + "1" + "}" * 10_000, "its values are nested too deeply"),
    ],
)
def test_mistakes_are_told_with_their_place(text: str, told: str) -> None:
    with pytest.raises(PipelineFileError) as raised:
        parse_pipeline(text, where="f.toml")
    assert str(raised.value).startswith("f.toml: ") and told in str(raised.value)


def test_one_read_has_one_group_and_one_checkpoint() -> None:
    found = parse_pipeline("one_read = true\n" + HEAD + SINK + SINK.replace("noop", 'noop"\nname = "other'))
    assert (found.group_of_all, found.checkpoint_of_all(Path("/f"))) == ("p", "/f/c/p/one_read")
    assert found.group_of(0) != found.group_of(1) != "p", "without it each sink has its own"


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text("""
        nmae = "p"
        every = "soon"
        mode = "twice"
        [source]
        topik = "orders"
        minPartitions = "few"
        [[step]]
        sql = "SELECT (1 FROM input"
        [[step]]
        python = "not_there:f"
        [[sink]]
        kind = "parket"
        form = "x"
        [[sink]]
        kind = "topic"
        topic = "t"
        options = { mode = "once", sinkID = "" }
    """)
    with pytest.raises(PipelineFileError) as raised:
        read_pipeline_file(path)
    lines = str(raised.value).splitlines()
    assert all(line.startswith(f"{path}: ") for line in lines)
    assert [line.removeprefix(f"{path}: ").split(": ")[0] for line in lines] == [
        "nmae", "name", "sink[0].form", "mode", "every", "checkpoint", "source.topik", "source.minPartitions",
        "step[0].sql", "sink[0].kind", "sink[1].options.mode", "sink[1].options.sinkId", "step[1].python",
    ]  # fmt: skip
    assert "did you mean parquet?" in str(raised.value) and "did you mean from?" in str(raised.value)


@pytest.mark.parametrize("elsewhere", ['nameserver = "other:9876"', 'namespace = "copies"'])
def test_a_topic_of_the_same_name_elsewhere_is_another_topic(elsewhere: str) -> None:
    parse_pipeline(HEAD + TO_TOPIC.replace('"t"', '"orders"') + elsewhere)


def test_functions_of_a_pipeline_are_looked_for_before_anything_is_done(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text(HEAD + f'[[step]]\n{SELECT}\n[[step]]\npython = "not_there:f"\n' + SINK)
    with pytest.raises(PipelineFileError, match=r"step\[1\]\.python: .* cannot be imported"):
        read_pipeline_file(path)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineFileError, match="cannot be read"):
        read_pipeline_file(tmp_path / "none.toml")
    (tmp_path / "p.toml").write_bytes(b"name = '\xff'")
    with pytest.raises(PipelineFileError, match="not text in UTF-8"):
        read_pipeline_file(tmp_path / "p.toml")


YAML = """
name: paid-orders
mode: follow
every: 1.5s
checkpoint: c
source:
  topic: orders
  maxOffsetsPerTrigger: 1000
  failOnDataLoss: false
step:
  - sql: SELECT 1 FROM input
    name: one
sink:
  - kind: parquet
    from: one
    path: out
    partition_by: [date]
  - name: copy
    kind: topic
    topic: t
    options: {mode: idempotent}
"""


def test_yaml_says_the_same(tmp_path: Path) -> None:
    (tmp_path / "p.yml").write_text(YAML)
    (tmp_path / "p.toml").write_text("""
        name = "paid-orders"
        mode = "follow"
        every = "1.5s"
        checkpoint = "c"
        source = { topic = "orders", maxOffsetsPerTrigger = 1000, failOnDataLoss = false }
        step = [{ sql = "SELECT 1 FROM input", name = "one" }]
        sink = [
            { kind = "parquet", from = "one", path = "out", partition_by = ["date"] },
            { name = "copy", kind = "topic", topic = "t", options = { mode = "idempotent" } },
        ]
    """)
    assert read_pipeline_file(tmp_path / "p.yml") == read_pipeline_file(tmp_path / "p.toml")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name: [", "it is not YAML: "),
        ("", "Expected `object`, got `null`"),
        (YAML.replace("mode: follow", "mode: follow\nname: other"), "name: the key stands twice, in lines 2 and 4"),
        (
            YAML.replace("    path: out", "    path: out\n    path: in"),
            "sink[0].path: the key stands twice",
        ),
        (YAML.replace("parquet", "paper"), "sink[0].kind: 'paper' is not one of"),
        (YAML.replace("every: 1.5s", "every: 15"), "every: Expected `str`, got `int`"),
        ("name: " + "[" * 10_000 + "]" * 10_000, "its values are nested too deeply"),
    ],
)
def test_mistakes_in_yaml_are_told_with_their_place(text: str, told: str) -> None:
    with pytest.raises(PipelineFileError) as raised:
        parse_pipeline(text, where="f.yaml", is_yaml=True)
    assert str(raised.value).startswith("f.yaml: ") and told in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name: &a [*a]", "name: Expected `str`, got `array`"),
        ("a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [{f'*a{n - 1}, ' * 9}]\n" for n in range(1, 30)), "a29: unknown key"),
    ],
)
def test_aliases_of_yaml_neither_go_round_nor_multiply(text: str, told: str) -> None:
    with pytest.raises(PipelineFileError) as raised:
        parse_pipeline(text, where="f.yaml", is_yaml=True)
    assert told in str(raised.value)


def test_without_its_package_yaml_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)  # as if it were not installed
    with pytest.raises(PipelineFileError, match="pip install pyyaml"):
        parse_pipeline(YAML, is_yaml=True)


def test_the_example_is_right() -> None:
    found = read_pipeline_file(Path(__file__).parents[5] / "examples/paid_orders.toml")
    assert [sink.kind for sink in found.sink] == ["topic", "parquet"]
