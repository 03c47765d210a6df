"""A strict reader of the text forms: what it does not understand is wrong."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_SAMPLE = re.compile(rf"({_NAME})(\{{.*\}})? (\S+)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"')
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?(?:e[+-]?\d+)?|Inf)|NaN")
_SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}


@dataclass
class ReadFamily:
    name: str
    kind: str
    help: str = ""
    unit: str = ""
    samples: dict[tuple[str, tuple[tuple[str, str], ...]], float] = field(default_factory=dict)

    def value(self, **labels: str) -> float:
        """Of the one sample that has these labels, whichever others it has."""
        found = [value for (_, own), value in self.samples.items() if labels.items() <= dict(own).items()]
        assert len(found) == 1, f"{len(found)} samples of {self.name} with {labels}"
        return found[0]


def read_text(text: str, *, is_open: bool = False) -> dict[str, ReadFamily]:
    """Raises AssertionError for every breach of the grammar."""
    assert text.endswith("\n")
    lines = text[:-1].split("\n")
    if is_open:
        assert lines.pop() == "# EOF"
    families: dict[str, ReadFamily] = {}
    current: ReadFamily | None = None
    for line in lines:
        if line.startswith("# "):
            _, word, name, rest = [*line.split(" ", 3), ""][:4]
            if word == "TYPE":
                assert name not in families, f"{name} is not in one piece"
                current = families[name] = ReadFamily(name, rest)
                assert rest in _SUFFIXES
                assert not (is_open and rest == "counter" and name.endswith("_total"))
            else:
                assert current is not None and current.name == name and not current.samples
                assert word == "HELP" or (word == "UNIT" and is_open and name.endswith(f"_{rest}"))
                setattr(current, word.lower(), rest)
            continue
        assert current is not None, line
        _read_sample(line, current, is_open=is_open)
    for family in families.values():
        assert family.samples and family.help
        if family.kind == "histogram":
            _check_histogram(family)
    return families


def _read_sample(line: str, family: ReadFamily, *, is_open: bool) -> None:
    matched = _SAMPLE.fullmatch(line)
    assert matched, line
    name, labels_text, value = matched.groups()
    suffixes = ("_total",) if is_open and family.kind == "counter" else _SUFFIXES[family.kind]
    assert name.removeprefix(family.name) in suffixes, f"{name} does not belong to {family.name}"
    assert _NUMBER.fullmatch(value), value
    labels = _read_labels(labels_text or "{}")
    assert len(dict(labels)) == len(labels), f"a label twice: {line}"
    assert (name, labels) not in family.samples, f"a sample twice: {line}"
    family.samples[name, labels] = float(value.replace("Inf", "inf"))


def _read_labels(text: str) -> tuple[tuple[str, str], ...]:
    inner, found = text[1:-1], []
    while inner:
        matched = _LABEL.match(inner)
        assert matched, text
        found.append((matched[1], re.sub(r"\\(.)", lambda each: {"n": "\n"}.get(each[1], each[1]), matched[2])))
        inner = inner[matched.end() :]
        assert not inner or inner[0] == ",", text
        inner = inner[1:]
    return tuple(found)


def _check_histogram(family: ReadFamily) -> None:
    series: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
    counts = {}
    for (name, labels), value in family.samples.items():
        if name.endswith("_bucket"):
            bound = dict(labels)["le"]
            rest = tuple(pair for pair in labels if pair[0] != "le")
            series.setdefault(rest, []).append((float(bound.replace("Inf", "inf")), value))
        elif name.endswith("_count"):
            counts[labels] = value
    for labels, buckets in series.items():
        assert buckets == sorted(buckets) and buckets[-1][0] == float("inf")
        assert [count for _, count in buckets] == sorted(count for _, count in buckets)
        assert buckets[-1][1] == counts[labels]
