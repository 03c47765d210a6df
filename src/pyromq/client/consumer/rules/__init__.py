"""Decisions of a consumer without I/O: values in, values out; the state machines of a queue and of its pull loop.

Imports ``model``, ``wire``, ``errors`` and ``clock``: no asyncio, no ``net``, nothing else of ``client``. Every room of
``consumer`` comes in.
"""
