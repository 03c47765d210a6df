"""The ground floor of the broker: settings, responses, refusals, counters, clocks.

Owns: how a response or a refusal looks, RocketMQ's names for settings, statistics.
Callers: every room of the broker. Imports: no other room.
"""
