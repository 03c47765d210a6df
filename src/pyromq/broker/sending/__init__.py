"""Requests that bring messages: sends, batches, send-backs, replies.

Imports the rooms up to ``delays``, not ``pulling``.
"""
