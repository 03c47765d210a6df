"""What the parts of a consumer share: a queue while it is owned, requests to brokers, listeners, settings, counters.

Owns: the state of an owned queue, and the words in which listeners reply.
Callers: the rooms above. Imports: ``rules``.
"""
