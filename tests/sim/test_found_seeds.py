"""Seeds that found a defect: each is run again, as it was found; what its plan has got since then is left out."""

from __future__ import annotations

import pytest

from tests.sim.commands import last_line, simulate

_FOUND = {
    367133003: "the clock of a new master was ahead of a consumer's: pops seemed to be late, and got nothing for ever",
    60050: "a judge: copies of prepared messages that one of two members had made alone have no promised place",
    60110: "a judge: a name server that had just started knew one of two sets, and a topic was made there alone",
    70004: "kept messages of an outbox were forgotten after FLUSH_SLAVE_TIMEOUT, and the next master did not have them",
    30018: "hand-outs of pops that a full disk refused were left out of the journal: a replay passed over the messages",
    61032: "a judge: retries that one of two members had stored alone, on a lease store that was set back, are cut",
    115101: "a member that took the lease and was killed before its promotion waited for ever for a longer, dead tail",
    115098: "one of two went on under an older lease: the other waited for its end, which never came, and named no way",
    110121: "copies of failed messages that a broker answered with FLUSH_SLAVE_TIMEOUT were let go of, and then cut",
    61011: "a master alone counted a tail that its disk refused as confirmed: no other member could ever be master",
    120005: "a change of rights was confirmed because the master that waited for its replicas stopped being one",
    115031: "a master under its next lease kept its connections: replicas cut what they had confirmed over them",
    200073: "a broker that was stopping was told to follow another one, and its log had a traceback of that",
    200122: "a delayed message that was late at one master was noted as done, and the next one passed over it",
    300007: "a member that had just become a replica took a change of users that its new master never got",
    300151: "a master that nobody sent to said that no replica was in sync, long after the lease named it again",
    300188: "kept messages of an outbox were put aside for good, because a member with an empty disk had no users yet",
    300676: "a master with a new disk took the next lease, because a member was missing, and all others cut their logs",
    301102: "a member with a new disk counted as one that has seen no lease, and one went on under another's number",
    302046: "one of two with a new disk made the first lease of an empty store, as the other one was not heard",
    300429: "a member that had confirmed messages alone cut them, for a master of another lease of the same number",
    400020: "a member with a new disk heard of an older lease from a store that was set back, and was a witness",
    400388: "a changed bit cut the end of a master's log when it was started: it went on without what its replicas had",
    403301: "messages with a time of their own were late, for want of a master, and their files expired meanwhile",
    400015: "a member in sync waited for a longer log, whose owner was not in sync: nobody could be master",
    500049: "a master whose disk was an older copy gave its lease away, and took it back at its next look",
    620156: "a lost lease was given to a longer log of another lease with its number, which lacked what a third had",
    610500: "a last master made the lost lease again, for its own disk, an older copy: acknowledged messages were cut",
    520094: "a broker showed what the agent before had waited for, which was killed, as if it waited still",
    410118: "an operator: a master alone in sync lost its disk, and nobody decided; it said that another takes over",
    414055: "a judge: a retry that one of two stored alone was cut, and files with its message expired, as they may",
    610484: "a judge: a group had read what a master alone had stored, and passed over what has its offset now",
    470148: "a judge: copies of failed messages had gone to the other set, and the files of the first ones expired",
    710026: "messages with a delay came early after a restart: the clock of their broker stood still while it slept",
    710004: "a holder on a copy of a replica's disk began its lease a second time, and nobody followed it any more",
    710125: "a replica on a copy of its master's disk had been master under the same lease, and waited for an operator",
    720122: "a master that was started anew wrote its lease over that of another one, which had taken it rightly",
    735039: "a forwarder of kept messages ended for good when the broker that it connected to was in no route any more",
    710027: "a judge: a reset brought back what a group had passed, and files with it had expired on one member",
    755043: "an operator: of two logs the one that had begun anew on an empty disk was chosen, and nobody followed it",
    21717: "a judge: a master alone in sync stored a retry, and an operator chose another after a store was set back",
    110028: "a judge: a damaged message that nobody reads any more lies on the disk of a master",
    110124: "a judge: a set registered after the user of all clients was made, and never got that user",
}
_NEWER = {367133003: ",".join(("f10", "q", *(f"f{number}" for number in range(21, 46))))}  # quiet phases, and stops


_LONG = (70004, 61011, 115101, 115098, 110028, 200073, 300188, 300429, 400020, 403301)


@pytest.mark.parametrize(
    "seed", [pytest.param(each, marks=pytest.mark.more if each in _LONG else ()) for each in _FOUND], ids=str
)
def test_what_it_found_is_mended(seed: int) -> None:
    done = simulate("--seed", str(seed), "--lines", "0", "--without", _NEWER.get(seed, ""))
    assert done.returncode == 0, f"{_FOUND[seed]}\n{done.stdout}{done.stderr}"
    assert last_line(done).endswith(": ok")
