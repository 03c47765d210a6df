"""Rounds of faults: a master, its replica and clients of every kind, something that goes wrong, and the ledger.

``python -m tests.faults`` runs them long, from a seed, and prints the table of docs/reliability.md.
"""
