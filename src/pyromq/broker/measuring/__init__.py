"""Measuring: the numbers of a running broker, read when somebody asks, and whether it is well.

Everything here only reads. A collection is made in steps: thousands of topics and queues are walked a few at a time, so
that requests pass in between.
"""
