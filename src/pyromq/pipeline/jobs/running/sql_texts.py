"""SQL of steps, checked without Spark: starting it takes seconds, and most slips can be seen in the text.

Refused are: a text that is empty, ends in the middle (quotes, brackets, comments), has several statements, begins with
no query, reads nothing though it names a view, or reads a view that is misspelt or comes later. All else Spark's parser
finds when the pipeline is run, before anything is written; a table of the catalog may have any name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

from pyromq.pipeline.core.keywords import closest

_BEGINNINGS: Final = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE")
_PAIRS: Final = {")": "(", "]": "[", "}": "{"}
_NAMES: Final = {"'": "a text that begins with '", '"': 'a text that begins with "', "`": "a name that begins with `"}
_token = re.compile(
    r"""(?P<skip>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`)
    |(?P<open>['"`]|/\*)
    |(?P<word>\w+)
    |(?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)


def sql_mistake(text: str, views: Collection[str], later: Collection[str] = ()) -> str:
    """What is wrong with the query; empty if nothing is found. ``views`` can be read, ``later`` ones not yet."""
    tokens: list[str] = []
    for kind, token in _tokens(text):
        if kind == "open":
            what = "a comment" if token == "/*" else _NAMES[token]
            return f"{what} has no end"
        tokens.append(token)
    while tokens and tokens[-1] == ";":
        tokens.pop()
    if not tokens:
        return "it is empty"
    if ";" in tokens:
        return "it has several statements, separated by ;. Make a step of each"
    return _unbalanced(tokens) or _no_query(tokens) or _wrong_view(tokens, views, later)


def tables_read(text: str) -> list[str]:
    """Names behind FROM and JOIN, as they are written."""
    tokens = [token for _, token in _tokens(text)]
    return list(_tables(tokens, [token.upper() for token in tokens]))


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    for found in _token.finditer(text):
        kind = found.lastgroup or ""
        if kind != "skip":
            yield kind, found[0]


def _unbalanced(tokens: list[str]) -> str:
    opened: list[str] = []
    for token in tokens:
        if token in _PAIRS.values():
            opened.append(token)
        elif token in _PAIRS and (not opened or opened.pop() != _PAIRS[token]):
            return f"there is a {token} without its {_PAIRS[token]}"
    return f"there is a {opened[-1]} without its end" if opened else ""


def _no_query(tokens: list[str]) -> str:
    first = next((token for token in tokens if token != "("), "")
    if first.upper() in _BEGINNINGS:
        return ""
    meant = closest(first, _BEGINNINGS)
    hint = f"did you mean {meant}?" if meant else f"a query begins with {', '.join(_BEGINNINGS[:-2])}"
    return f"it begins with {first!r}; {hint}"


def _wrong_view(tokens: list[str], views: Collection[str], later: Collection[str]) -> str:
    words = [token.upper() for token in tokens]
    if not {"FROM", "JOIN", "TABLE"} & {*words}:
        named = next((token for token in tokens if token in views), "")
        return f"it names {named}, but has no FROM" if named else ""
    own = {tokens[at - 1].lower() for at in range(1, len(words)) if words[at] == "AS" and "WITH" in words}
    own |= {tokens[at + 1].lower() for at in range(len(words) - 1) if words[at] in ("WITH", "RECURSIVE")}
    for name in _tables(tokens, words):
        if name.lower() in own or name.lower() in {view.lower() for view in views}:
            continue
        if name in later:
            return f"it reads {name}, which is a later step"
        if meant := closest(name, views):
            return f"it reads {name}; did you mean {meant}?"
    return ""


def _tables(tokens: list[str], words: list[str]) -> Iterator[str]:
    """Plain names behind FROM and JOIN: not those with a catalog or arguments, nor parts of ``extract(… FROM …)``."""
    for at, word in enumerate(words[:-1]):
        follows = words[at + 2] if at + 2 < len(words) else ""
        if word in ("FROM", "JOIN") and re.fullmatch(r"[A-Za-z_]\w*", tokens[at + 1]) and follows not in (".", "("):
            if word == "JOIN" or not _is_in_function(words, at):
                yield tokens[at + 1]


def _is_in_function(words: list[str], at: int) -> bool:
    """Whether the bracket around it begins no query, or it is a comparison: ``a IS DISTINCT FROM b``."""
    if at >= 2 and words[at - 1] == "DISTINCT" and words[at - 2] in ("IS", "NOT"):
        return True
    depth = 0
    for back in range(at - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(words[back], 0)
        if depth < 0:
            return words[back + 1] not in _BEGINNINGS
    return False
