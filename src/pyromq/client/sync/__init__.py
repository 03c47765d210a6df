"""The clients for code without asyncio: each method one line over the asyncio one.

Owns: the one loop thread of a process.
Callers: ``pyromq`` itself. Imports: all rooms of the client.
"""
