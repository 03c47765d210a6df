"""A question in SQL before it is answered: which tables it reads, and that it does nothing but read them.

DuckDB hands out its own syntax tree as JSON, so what is checked is what is run. Allowed is one SELECT (also WITH, FROM
first, VALUES, DESCRIBE, SUMMARIZE) over named tables and the functions of ``TABLE_FUNCTIONS``; those that open files,
databases or other texts of SQL are refused by their absence.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from pyromq.model.names import dead_letter_topic, retry_topic
from pyromq.pipeline.tables.errors import SqlError

TABLE_FUNCTIONS: Final = frozenset(("generate_series", "json_each", "json_tree", "range", "repeat", "unnest"))
PREFIXES: Final = {"dlq:": dead_letter_topic, "retry:": retry_topic}
"""What stands before the name of a group: ``"dlq:billing"`` are the dead letters of group billing."""


_TOLERANT: Final = "get_json_object(string(body), '$.field'), which is null for what is no JSON"


@dataclass(slots=True)
class Question:
    """One text of SQL; ``tables`` are the names it reads, as they are written, each once.

    ``json_of_body`` says what takes ``body`` for JSON, which it does not read where that is bytes.
    """

    text: str
    tables: list[str] = field(default_factory=list)
    json_of_body: str = ""


def topic_named(table: str) -> str:
    """The topic that a name of a query stands for."""
    for prefix, topic_of in PREFIXES.items():
        if table.startswith(prefix) and len(table) > len(prefix):
            return topic_of(table.removeprefix(prefix))
    return table


def understood(text: str, tree: str) -> Question:
    """The question that DuckDB's syntax tree of a text holds. Raises SqlError for what is more than reading."""
    parsed: dict[str, Any] = json.loads(tree)
    if parsed["error"]:
        raise SqlError(_refusal(parsed))
    statements = parsed["statements"]
    if len(statements) != 1:
        raise SqlError(f"one SELECT is answered at a time; this text has {len(statements)} statements")
    found = Question(text)
    for kind, name in _uses(statements[0], frozenset()):
        if kind == "table" and name not in found.tables:
            found.tables.append(name)
        if kind == "function" and name not in TABLE_FUNCTIONS:
            allowed = ", ".join(sorted(TABLE_FUNCTIONS))
            raise SqlError(f"{name}(…) is not allowed after FROM: name a topic or a table there, or use {allowed}")
    _refuse_namesakes(found.tables)
    found.json_of_body = _json_of_body(statements[0])
    return found


def _refusal(parsed: dict[str, Any]) -> str:
    if parsed["error_type"] == "parser":
        return f"this is not SQL that DuckDB understands: {parsed['error_message']}"
    return "only SELECT is answered: nothing can be changed, written or loaded"


def _refuse_namesakes(tables: Iterable[str]) -> None:
    """Names of tables are the same to DuckDB whatever their case; topics are not."""
    seen: dict[str, str] = {}
    for name in tables:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise SqlError(f"{other} and {name} differ in case alone, which SQL does not see: ask for them one by one")


def _json_of_body(node: Any) -> str:
    """What takes ``body`` for JSON, as it is written, and how it works; empty where nothing does."""
    if isinstance(node, list):
        return next((found for each in node if (found := _json_of_body(each))), "")
    if not isinstance(node, dict):
        return ""
    name = "->" if node.get("type") == "LAMBDA" else str(node.get("function_name", ""))
    if (name.startswith("json") or name in ("->", "->>")) and any(map(_is_body, _operands(node))):
        shape = "{} " + name + " …" if name.startswith("-") else name + "({}, …)"
        return f"{shape.format('body')} does not read them: write {shape.format('string(body)')}, or {_TOLERANT}"
    return next((found for each in node.values() if (found := _json_of_body(each))), "")


def _operands(node: dict[str, Any]) -> list[Any]:
    """Those of a function or an operator; DuckDB 1 calls them children."""
    if node.get("type") == "LAMBDA":
        return [node.get("lhs")]
    return [*(node.get("children") or ()), *(each.get("expression") for each in node.get("arguments") or ())]


def _is_body(node: Any) -> bool:
    is_column = isinstance(node, dict) and node.get("type") == "COLUMN_REF"
    return is_column and [str(each).lower() for each in node.get("column_names", ())][-1:] == ["body"]


def _uses(node: Any, bound: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Tables and table functions below a node; ``bound`` are names that WITH gives a meaning there, in lower case."""
    if isinstance(node, list):
        for each in node:
            yield from _uses(each, bound)
    if not isinstance(node, dict):
        return
    match node.get("type"):
        case "BASE_TABLE" if not node.get("schema_name") and node["table_name"].lower() not in bound:
            yield "table", node["table_name"]
        case "TABLE_FUNCTION":
            yield "function", str(node["function"]["function_name"])
        case "RECURSIVE_CTE_NODE":
            bound |= {str(node["cte_name"]).lower()}
    for entry in (node.get("cte_map") or {}).get("map", ()):
        yield from _uses(entry["value"], bound)  # it sees those before it
        bound |= {str(entry["key"]).lower()}
    for key, value in node.items():
        if key != "cte_map":
            yield from _uses(value, bound)
