"""Exporter: the metrics of any RocketMQ cluster, from admin requests.

every so often ─▶ name server: which brokers? ─▶ each broker by itself: what it does, its topics, groups, members
scrape         ─▶ what the last round found; a broker that does not answer is down, the others are shown
"""
