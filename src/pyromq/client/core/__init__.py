"""What producers, consumers and tools of one process share: the client, its links, routes, heartbeats, settings.

Owns: name servers, links to brokers, roles, the identity of a client, received messages, hooks.
Callers: every room of the client. Imports: no other room.
"""
