"""Transactional messages: prepared, committed or rolled back, checked back by brokers.

Imports ``client.producer`` and ``client.core``.
"""
