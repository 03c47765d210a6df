"""The words of the whole tree: messages, queues, routes, topics, names. Frozen values, no I/O.

Owns: what a name may look like, which properties there are, how queues are shared out.
Callers: every package. Imports: ``errors`` alone.
"""
