"""RocketMQ 5's gRPC API: a second front door, whose calls go to the same handlers as requests of the remoting protocol.

    call ─▶ client (signature, settings) ─▶ request of its ``Caller`` ─▶ handler ─▶ response, its status from a table

It runs on the broker's loop: sends of both protocols join the same group commit.
"""
