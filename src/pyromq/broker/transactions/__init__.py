"""Prepared messages (RocketMQ: half messages): how they wait, how they end, and how their producers are asked.

Imports the rooms up to ``delays``; sends meet it through one function, ``TransactionHandler.prepare``.
"""
