"""Committed offsets: at the broker, or in a file for groups that broadcast.

Imports ``consumer.base`` and ``consumer.rules``; ``assigning`` and the consumers come in.
"""
