"""Requests that fetch messages, and the pulls that wait for one (long polling).

Imports ``base`` and ``state``.
"""
