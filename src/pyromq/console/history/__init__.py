"""History: numbers over time, kept in three tiers in memory and on disk, and charts made of them.

    recent   every 5 s    15 minutes
    day      every 3 min  24 hours      means of recent
    week     every 15 min 7 days        means of day

A number has a name; a page shows it with one line (``views.trends``):

    trend_chart(visit.desk, visit.span, "Lag", {"billing": lag_name("billing")}, "messages")

with ``m.ranges(span, path)`` beside it, and ``?range=day`` or ``?range=week`` in the address. Memory and files are
bounded by the number of names, by age and by bytes; what was not sampled is a gap.
"""
