"""In flight: which messages are handed out to whom until when, how often, and what was acknowledged.

queue     the rows of one (group, topic, queue)          journal   every change, as records of the commit log
table     all of them, and what expires next             snapshot  the table as a file, so that little is replayed
"""
