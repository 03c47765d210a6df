"""Seals: what recovery may trust without looking, and RocketMQ's checkpoint beside it.

For the store; the broker runs the jobs of ``Seals`` on a worker thread. Imports ``files``, ``log`` and ``derived``.
"""
