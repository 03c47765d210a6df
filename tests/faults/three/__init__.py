"""Rounds with three brokers of one name under agents, and real lease stores: ``make faults ARGUMENTS="--three"``."""
