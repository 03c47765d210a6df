"""Hostile clients against real servers: each attack runs beside an honest client, and both are measured.

The short form is part of ``make test``; ``make hostile`` (PYROMQ_HOSTILE=long) runs the counts of docs/reliability.md.
"""
