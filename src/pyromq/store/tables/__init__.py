"""Configuration tables: topics, groups, progress of consumers, filters, as JSON files in RocketMQ's dialect.

For the broker, which owns one object for each table. Imports ``files`` only.
"""
