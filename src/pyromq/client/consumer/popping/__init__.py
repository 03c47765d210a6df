"""Popping: messages are received for a time and acknowledged one by one; no queue belongs to a member.

leases           a message with its receipt; ``with message:`` acknowledges or releases it
pop_calls        requests to brokers             renewals    keep what is worked on from others
simple_consumer  the application receives        pop_service push consumers in pop mode
"""
