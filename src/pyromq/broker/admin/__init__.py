"""Requests of tools and of clients about everything but messages: one module for each kind of request.

Owns: nothing; each handler reads and changes the tables of ``state`` and asks the store.
Callers: ``request_table``. Imports: the rooms below.
"""
