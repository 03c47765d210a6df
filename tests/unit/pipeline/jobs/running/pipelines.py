"""Texts of pipeline files."""

from __future__ import annotations

HEAD = 'name = "p"\ncheckpoint = "c"\n[source]\ntopic = "orders"\n'

SINK = '[[sink]]\nkind = "noop"\n'
