"""``pyromq top``: topics, groups and lag, live in a terminal.

state  what keys change: order, filter, pause; pure      view  one frame of it, from what was sampled
keys   keys as they are pressed                          command  the loop around them
"""
