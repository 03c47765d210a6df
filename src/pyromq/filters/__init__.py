"""Filters by properties: SQL92 expressions, compiled to functions over stored properties. No I/O.

    text ──▶ grammar (tokens, precedence) ──▶ expression (checked tree) ──▶ program (one Python function)

``compile_filter`` does all of it.
"""

from pyromq.filters.errors import InvalidFilterError
from pyromq.filters.sql import SqlFilter, compile_filter, load_parser

__all__ = ["InvalidFilterError", "SqlFilter", "compile_filter", "load_parser"]
