"""Metrics: which there are, and their numbers as text; no I/O, no clock.

``table`` declares every metric once: docs, dashboard and alerts are made from it. Servers collect ``Family`` values
when somebody asks, ``exposition`` and ``otlp`` write them down, ``budget`` keeps label sets bounded.
"""
