"""Decisions of a consumer without I/O: assignment, pull loop, flow control, buffers, outcomes, offsets.

Owns: every rule that could be wrong; tested with literals and properties, no event loop needed.
Callers: the rooms above. Imports: ``model``, ``wire``, ``errors``; an import rule forbids sockets, clocks and asyncio.
"""
