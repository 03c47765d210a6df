"""Access control: who a request comes from, what that user may do, and what each request needs.

    settings        whether it is on, and with which users it begins
    secret          a password that cannot be shown by accident
    resources       topics, groups, clusters, and patterns of their names; actions
    addresses       addresses, networks, and the address patterns of RocketMQ 4.x
    policies        users and policies, and the decision about one need of one user
    book            users and policies of a server: changed one by one, kept in a file
    identity        principals: made by verification, and by nothing else
    validators      signatures, certificates, and plug-ins of others
    needs           what a request asks for, read from its fields and body
    rights          the table: request code × action × resource, for brokers and name servers
    guard           verification and decision in front of a server's handlers
    requests        3001 to 3010: tools look at users and policies, and change them
    plain_acl       accounts of RocketMQ 4.x (plain_acl.yml)
    templates       the rights of producers, consumers, pipelines, operators, readers

Nothing here knows sockets, brokers or time. Deny is the answer to everything that no policy allows.
"""
