"""Who is master of a broker name, decided by a lease in a store that others run: etcd, PostgreSQL or Kubernetes.

One agent stands beside each broker (``pyromq failover``). The holder of the lease renews it and grants its broker the
right to acknowledge for a while; a broker whose grant has run out acknowledges nothing. When nobody renews the lease,
a replica that has everything acknowledged takes it, with the next number, and its broker is promoted.

    lease store ◀──read, compare-and-set──▶ agent ──status, grant, promote, follow──▶ broker
                                             │
                                           rules: what is seen → one step; no I/O, no clock of its own

Two rules make it safe, whatever is slow, paused or cut off:

- *Time.* A grant ends before any observer may call the lease expired: it is counted from before the renewal was sent,
  an observer counts from when it saw the renewal, and clocks are never compared between machines.
- *Members in sync.* The record names the members that have everything acknowledged. A broker waits for at least those:
  a member is waited for before it is named, and is no longer named before the broker stops waiting for it.
"""
