"""Endpoint: metrics and health of the servers of one process, over HTTP and pushed to a collector.

servers' loop                                   thread of the endpoint
collect, in steps of a few milliseconds  ◀────  /metrics, pushes: asks, then writes the text
health                                   ◀────  /health/ready: asks, and does not wait for long
a beat every half second                 ────▶  /health/live, /health/startup: answer whatever the loop does
"""
