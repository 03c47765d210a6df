"""What every room of the broker uses: settings, environment, refusals and responses, counters, worker threads.

Imports nothing else of the broker.
"""
