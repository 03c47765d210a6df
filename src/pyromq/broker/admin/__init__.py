"""Requests of tools and operators, and of clients about themselves: one module for each subject.

May look into every other room; only ``wiring`` and ``request_table`` import it.
"""
