"""What operators look at and turn: lists of topics and groups with rates and lag, settings and care of servers.

Lists ask each broker a few questions about everything it has, and about single topics and groups only for the rows
that are shown. Everything works with Apache RocketMQ too.
"""
