"""``pyromq mqadmin``: RocketMQ's mqadmin as runbooks call it: its sub-commands, its options, its columns.

    commands  the table of sub-commands, and what the others are called here
    options   options that many of them share       printing  lines of fixed columns, times and versions as mqadmin has
    topics  groups  messages  brokers  nameservers  access  the sub-commands themselves, named as they are typed

Options and columns are those of mqadmin 5.5.0. As there, nothing is asked before something is deleted. What mqadmin
writes into files (bodies of messages, state of consumers) is printed here.
"""
