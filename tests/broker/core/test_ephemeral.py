"""Names with a suffix: which one is given, when it ends, and what becomes of its messages."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.hub import Bench, put
from fakes.peer import posting
from wakebus.broker.core import ephemeral
from wakebus.broker.core.holders import look_after_names, release_ended_holders
from wakebus.broker.core.model import Endpoint
from wakebus.broker.core.restore import restore_hub
from wakebus.broker.errors import BadMessage, NameTaken, UnknownTarget
from wakebus.broker.protocol import wire
from wakebus.broker.protocol.message import NAME
from wakebus.broker.system.processes import Process
from wakebus.broker.verbs import VERBS, registration

A, B, C = "a" * 16, "b" * 16, "c" * 16
DEAD = Process(2**31 - 1)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A hub without sockets."""
    found = Bench(tmp_path)
    yield found
    found.close()


def claim(bench: Bench, instance: str, name: str = "bus-er", **fields: Any) -> str:
    """Claim as a client of this instance, `suffix` unless said otherwise; return what it got."""
    conn = instance[:1].encode()
    if conn not in bench.hub.conns:
        bench.greeted(conn, instance)
    payload = {"name": name, "suffix": True, **fields}
    registration.register(bench.hub, bench.request(payload, conn))
    bench.slow.run_all()
    return str(bench.answers[-1]["name"])


def leave(bench: Bench, instance: str, name: str) -> None:
    """Give the name up."""
    request = bench.request({"name": name}, instance[:1].encode())
    registration.unregister(bench.hub, request)
    bench.slow.run_all()


def second(bench: Bench) -> Endpoint:
    """Return `bus-er-2`, held by B; A holds `bus-er`."""
    assert [claim(bench, A), claim(bench, B)] == ["bus-er", "bus-er-2"]
    return bench.hub.endpoints["bus-er-2"]


def send(bench: Bench, id: str, to: str = "bus-er-2", **fields: Any) -> Any:
    """Send a message and store it; return the answer."""
    VERBS["send"](bench.hub, bench.request(posting(to, id, id=id, **fields), b"sender"))
    bench.slow.run_all()
    return bench.answers[-1]


def stored(bench: Bench, id: str) -> dict[str, Any]:
    """Return a message's row."""
    row = bench.slow.store.find(id)
    assert row is not None
    return row


def delivered(bench: Bench) -> list[str]:
    """Return the ids that were delivered, in order."""
    frames = [wire.decode(frame) for frame in bench.posted]
    return [f.payload["message"]["id"] for f in frames if f.verb == "deliver"]


def sweep(bench: Bench) -> None:
    """Look after the names as the router does each second; `bus-er` beats."""
    if holder := bench.hub.endpoint("bus-er").holder:
        holder.beat = bench.mono
    release_ended_holders(bench.hub)
    ephemeral.end_overdue(bench.hub)
    bench.slow.run_all()


# --- which name -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["e", "x" * 61, "x" * 63, "x" * 64])
def test_every_name_with_a_suffix_is_a_name(name: str) -> None:
    """PROTOCOL-5.13: 98 different ones; a long name is cut."""
    found = [*ephemeral.numbered(name)]
    assert len({*found}) == 98
    assert all(NAME.match(one) and one.startswith(name[:60]) for one in found)
    assert (found[0], found[-1]) == (name[:62] + "-2", name[:61] + "-99")


def test_a_free_name_is_granted_as_it_is(bench: Bench) -> None:
    """PROTOCOL-5.13, PROTOCOL-5.14: also when asked with a suffix; it is not ephemeral."""
    assert claim(bench, A) == "bus-er"
    assert bench.answers[-1] == {"name": "bus-er", "epoch": 1, "ended": []}
    assert bench.slow.store.endpoints()[0]["ephemeral"] == 0


def test_two_that_ask_at_once_get_two_names(bench: Bench) -> None:
    """PROTOCOL-5.13: before either grant is stored."""
    for conn, instance in ((b"a", A), (b"b", B), (b"c", C)):
        bench.greeted(conn, instance)
        request = bench.request({"name": "bus-er", "suffix": True}, conn)
        registration.register(bench.hub, request)
    bench.slow.run_all()
    assert [(a["name"], a.get("ephemeral")) for a in bench.answers] == [
        ("bus-er", None),
        ("bus-er-2", True),
        ("bus-er-3", True),
    ]


def test_names_that_somebody_chose_are_left_alone(bench: Bench) -> None:
    """PROTOCOL-5.13: registered as it is, declared, with messages waiting; away or not."""
    hub = bench.hub
    claim(bench, C, "bus-er-2", suffix=False)
    leave(bench, C, "bus-er-2")
    VERBS["declare"](hub, bench.request({"name": "bus-er-3"}))
    send(bench, "m1", "bus-er-4", queue=True)
    VERBS["send"](hub, bench.request(posting("bus-er-5", "m2", queue=True), b"s"))  # on its way
    claim(bench, A)
    assert claim(bench, B) == "bus-er-6"
    bench.pass_time(31 * 86400)
    hub.endpoints["bus-er"].holder.beat = bench.mono  # type: ignore[union-attr]
    assert claim(bench, "d" * 16) == "bus-er-2", "nobody has come for thirty days"


def test_a_silent_holder_keeps_its_name_with_a_suffix(bench: Bench) -> None:
    """PROTOCOL-5.13: it may be stopped; only one whose process has ended is passed over."""
    endpoint = second(bench)
    for instance in (A, B):
        bench.hub.conns[instance[:1].encode()].process = Process(1)
    for name in ("bus-er", "bus-er-2"):
        holder = bench.hub.endpoints[name].holder
        assert holder is not None
        holder.process, holder.beat = Process(1), bench.mono + 20
    assert endpoint.holder is not None
    endpoint.holder.beat = bench.mono - 600
    assert claim(bench, C) == "bus-er-3"
    endpoint.holder.process = DEAD
    assert claim(bench, "d" * 16) == "bus-er-2"


def test_all_taken(bench: Bench) -> None:
    """PROTOCOL-5.13: told with the first and the last, and who holds the name itself."""
    for name in ephemeral.numbered("bus-er"):
        bench.hub.endpoint(name).declared = True
    claim(bench, A)
    with pytest.raises(NameTaken, match="bus-er and bus-er-2 to bus-er-99 are all taken") as caught:
        claim(bench, B)
    assert caught.value.data == {"pid": 0, "epoch": 1}


def test_takeover_and_suffix_contradict(bench: Bench) -> None:
    """PROTOCOL-5.13: nothing is taken over."""
    claim(bench, A)
    with pytest.raises(BadMessage, match="say one"):
        claim(bench, B, takeover=True)


def test_asked_again_it_is_the_same_name(bench: Bench) -> None:
    """PROTOCOL-5.14: the answer was lost; also when the name itself is free by now."""
    second(bench)
    leave(bench, A, "bus-er")
    assert claim(bench, B) == "bus-er-2"
    assert bench.answers[-1] == {"name": "bus-er-2", "epoch": 1, "ended": [], "ephemeral": True}


def test_a_name_of_its_own_choice_is_not_given_twice(bench: Bench) -> None:
    """PROTOCOL-5.14: a client that holds `bus-er-2` as it is gets another one with a suffix."""
    claim(bench, A)
    claim(bench, B, "bus-er-2", suffix=False)
    assert claim(bench, B) == "bus-er-3"


# --- what makes it ephemeral, and what does not -----------------------------------------------


def test_who_comes_back_keeps_it_as_it_is(bench: Bench) -> None:
    """PROTOCOL-5.14: with its messages and the time of its grant; also if the store was lost."""
    endpoint = second(bench)
    since = endpoint.ephemeral
    bench.pass_time(5)
    assert claim(bench, B, "bus-er-2", suffix=False, ephemeral=True) == "bus-er-2"
    assert endpoint.ephemeral == since > 0
    bench.hub.endpoints.clear()
    assert claim(bench, B, "bus-er-2", suffix=False, ephemeral=True) == "bus-er-2"
    assert bench.hub.endpoints["bus-er-2"].ephemeral == bench.hub.bus_time()


def test_a_chosen_name_does_not_become_ephemeral(bench: Bench) -> None:
    """PROTOCOL-5.14: whatever a claim says."""
    claim(bench, A, "mine", suffix=False)
    leave(bench, A, "mine")
    claim(bench, B, "mine", suffix=False, ephemeral=True)
    assert bench.hub.endpoints["mine"].ephemeral == 0
    assert "ephemeral" not in bench.answers[-1]


@pytest.mark.parametrize("how", ["registered", "declared"])
def test_somebody_chooses_an_ephemeral_name(bench: Bench, how: str) -> None:
    """PROTOCOL-5.14, PROTOCOL-10.2: then it is his, for as long as any other name."""
    endpoint = second(bench)
    leave(bench, B, "bus-er-2")
    if how == "registered":
        claim(bench, C, "bus-er-2", suffix=False)
        leave(bench, C, "bus-er-2")
    else:
        VERBS["declare"](bench.hub, bench.request({"name": "bus-er-2"}))
        bench.slow.run_all()
    assert endpoint.ephemeral == 0
    bench.pass_time(3600)
    sweep(bench)
    assert bench.hub.known("bus-er-2")
    rows = {row["name"]: row for row in bench.slow.store.endpoints()}
    assert rows["bus-er-2"]["ephemeral"] == 0


# --- its end ----------------------------------------------------------------------------------


def test_it_ends_a_minute_after_its_holder(bench: Bench) -> None:
    """PROTOCOL-5.15, PROTOCOL-4.8: its messages are dead, and it is unknown, with near names."""
    second(bench)
    send(bench, "m1")
    send(bench, "m2", session="s")
    leave(bench, B, "bus-er-2")
    bench.pass_time(59)
    sweep(bench)
    assert stored(bench, "m1")["state"] == "queued" and bench.hub.known("bus-er-2")
    bench.pass_time(1)
    sweep(bench)
    assert [stored(bench, id)["state"] for id in ("m1", "m2")] == ["dead", "dead"]
    assert stored(bench, "m1")["reason"] == "the session that held bus-er-2 has ended"
    assert "its session ended" in stored(bench, "m2")["reason"]
    error = send(bench, "m3")
    assert isinstance(error, UnknownTarget) and error.data["near"] == ["bus-er"]
    assert {row["name"] for row in bench.slow.store.endpoints()} == {"bus-er"}


def test_the_next_one_gets_a_fresh_mailbox(bench: Bench) -> None:
    """PROTOCOL-5.15: nothing of the one that ended is left in it."""
    second(bench)
    send(bench, "m1")
    leave(bench, B, "bus-er-2")
    bench.pass_time(60)
    sweep(bench)
    bench.posted.clear()
    assert claim(bench, C) == "bus-er-2"
    assert (bench.answers[-1]["epoch"], delivered(bench)) == (1, [])


@pytest.mark.parametrize("process", [DEAD, Process(0)])
def test_who_counts_as_gone(bench: Bench, process: Process) -> None:
    """PROTOCOL-5.15: a process that ended; one that cannot be seen, after as long a silence."""
    endpoint = second(bench)
    assert endpoint.holder is not None
    endpoint.holder.process = process
    bench.pass_time(50)
    sweep(bench)
    assert (endpoint.holder is None) is (process is DEAD)
    bench.pass_time(11)
    sweep(bench)
    assert endpoint.holder is None and bench.hub.known("bus-er-2")
    bench.pass_time(60)
    sweep(bench)
    assert not bench.hub.known("bus-er-2")
    assert bench.hub.known("bus-er"), "a name that somebody chose stays"


def test_a_seen_process_that_is_silent_is_not_gone(bench: Bench) -> None:
    """PROTOCOL-5.15: it may be stopped for an hour, and go on."""
    endpoint = second(bench)
    assert endpoint.holder is not None
    endpoint.holder.process = Process(1)
    bench.pass_time(3600)
    sweep(bench)
    assert endpoint.holder is not None


def test_its_time_goes_on_over_a_restart(bench: Bench, tmp_path: Path) -> None:
    """PROTOCOL-5.15, PROTOCOL-8.2: by bus time; what was for a session is known as that again."""
    second(bench)
    send(bench, "m1", session="s")
    send(bench, "m2", body={"channel": "feishu:1"})
    leave(bench, B, "bus-er-2")
    bench.pass_time(40)
    bench.hub.endpoints.clear()
    restore_hub(bench.hub, bench.slow.store)
    endpoint = bench.hub.endpoints["bus-er-2"]
    entries = endpoint.mailbox.entries
    assert (entries["m1"].session, entries["m2"].session) == (True, False)
    bench.pass_time(19)
    sweep(bench)
    assert bench.hub.known("bus-er-2") and len(entries) == 2
    bench.pass_time(1)
    sweep(bench)
    assert not bench.hub.known("bus-er-2") and not entries


def test_what_arrives_while_it_ends_is_dead_too(bench: Bench) -> None:
    """PROTOCOL-5.15: accepted before, stored after; nothing more is accepted meanwhile."""
    second(bench)
    leave(bench, B, "bus-er-2")
    bench.pass_time(60)
    VERBS["send"](bench.hub, bench.request(posting("bus-er-2", id="m1"), b"sender"))
    ephemeral.end_overdue(bench.hub)
    assert not bench.hub.known("bus-er-2") and "bus-er-2" in bench.hub.endpoints
    look_after_names(bench.hub)
    bench.slow.run_all()
    assert isinstance(send(bench, "m2"), UnknownTarget)
    sweep(bench)
    assert stored(bench, "m1")["state"] == "dead"
    assert "bus-er-2" not in bench.hub.endpoints


def test_a_name_that_ends_may_be_chosen(bench: Bench) -> None:
    """PROTOCOL-5.15: what still arrives for it then waits for its new holder."""
    second(bench)
    leave(bench, B, "bus-er-2")
    bench.pass_time(60)
    VERBS["send"](bench.hub, bench.request(posting("bus-er-2", id="m1"), b"sender"))
    ephemeral.end_overdue(bench.hub)
    claim(bench, C, "bus-er-2", suffix=False)
    assert delivered(bench) == ["m1"] and bench.hub.known("bus-er-2")


# --- its successor ----------------------------------------------------------------------------


def test_a_successor_gets_what_was_for_no_session(bench: Bench) -> None:
    """PROTOCOL-5.15, PROTOCOL-5.16: the rest is dead at once, with the reason."""
    second(bench)
    for id, fields in (("m1", {"session": "s"}), ("m2", {}), ("m3", {"session": "t"})):
        send(bench, id, **fields)
    assert delivered(bench) == ["m1", "m2", "m3"], "in hand"
    leave(bench, B, "bus-er-2")
    bench.pass_time(10)
    bench.posted.clear()
    assert claim(bench, C) == "bus-er-2"
    bench.slow.run_all()
    assert delivered(bench) == ["m2"]
    for id in ("m1", "m3"):
        row = stored(bench, id)
        assert (row["state"], row["reason"]) == (
            "dead",
            "its session ended: the client that held bus-er-2 is gone",
        )


@pytest.mark.parametrize("takeover", [False, True])
def test_whoever_chooses_the_name_is_a_successor(bench: Bench, takeover: bool) -> None:
    """PROTOCOL-5.16: also one that takes it over from a living holder."""
    second(bench)
    send(bench, "m1", session="s")
    if not takeover:
        leave(bench, B, "bus-er-2")
    bench.posted.clear()
    claim(bench, C, "bus-er-2", suffix=False, takeover=takeover)
    bench.slow.run_all()
    assert stored(bench, "m1")["state"] == "dead" and delivered(bench) == []


def test_who_comes_back_is_no_successor(bench: Bench) -> None:
    """PROTOCOL-5.16: it gets what waited, session or not; after it gave the name up, too."""
    second(bench)
    leave(bench, B, "bus-er-2")
    send(bench, "m1", session="s")
    assert claim(bench, B, "bus-er-2", suffix=False, ephemeral=True) == "bus-er-2"
    bench.slow.run_all()
    assert delivered(bench) == ["m1"]


def test_on_other_names_sessions_outlive_a_process(bench: Bench) -> None:
    """PROTOCOL-5.16: the next holder gets them."""
    claim(bench, A, "mine", suffix=False)
    leave(bench, A, "mine")
    send(bench, "m1", "mine", session="s")
    claim(bench, B, "mine")
    bench.slow.run_all()
    assert delivered(bench) == ["m1"]


def test_what_was_on_its_way_when_a_successor_came(bench: Bench) -> None:
    """PROTOCOL-5.16: accepted for the one before; what is accepted later is the successor's."""
    second(bench)
    leave(bench, B, "bus-er-2")
    old = posting("bus-er-2", id="m1", session="s")
    VERBS["send"](bench.hub, bench.request(old, b"sender"))
    bench.pass_time(1)
    bench.greeted(b"c", C)
    registration.register(bench.hub, bench.request({"name": "bus-er", "suffix": True}, b"c"))
    bench.slow.run_all()
    send(bench, "m2", session="s")
    assert stored(bench, "m1")["state"] == "dead"
    assert delivered(bench) == ["m2"]


# --- dead for good ----------------------------------------------------------------------------


def retry(bench: Bench, id: str) -> Any:
    """Retry by force; return the answer."""
    VERBS["retry"](bench.hub, bench.request({"ids": [id], "force": True}))
    bench.slow.run_all()
    return bench.answers[-1]


def test_what_was_for_a_session_that_ended_stays_dead(bench: Bench) -> None:
    """PROTOCOL-10.8, PROTOCOL-5.16: also what died by itself before its session ended."""
    second(bench)
    send(bench, "m1", session="s", ttl_s=5)
    send(bench, "m2", session="s")
    bench.slow.store.mark("m1", "", state="dead", reason="it expired", done=1.0)
    bench.hub.endpoints["bus-er-2"].mailbox.remove("m1")
    leave(bench, B, "bus-er-2")
    bench.pass_time(5)
    claim(bench, C)
    for id in ("m1", "m2"):
        (kept,) = retry(bench, id)["kept"]
        assert (kept["state"], kept["why"]) == (
            "dead",
            "its session has ended; send a new message to an endpoint that is there",
        )


def test_what_died_with_a_name_waits_for_somebody_who_has_it(bench: Bench) -> None:
    """PROTOCOL-10.8: nobody would come for it; once there is a holder it may have it."""
    second(bench)
    send(bench, "m1")
    leave(bench, B, "bus-er-2")
    bench.pass_time(60)
    sweep(bench)
    (kept,) = retry(bench, "m1")["kept"]
    assert "nobody has the name bus-er-2 any more" in kept["why"]
    assert claim(bench, C) == "bus-er-2"
    assert retry(bench, "m1")["retried"] == ["m1"]


def test_an_end_is_told_to_the_sender(bench: Bench) -> None:
    """PROTOCOL-5.15, PROTOCOL-6.11: once, as any death; what helps now stands in the text."""
    bench.hub.endpoint("asker").declared = True
    second(bench)
    send(bench, "m1", sender="asker")
    send(bench, "m2", sender="asker", session="s")
    leave(bench, B, "bus-er-2")
    bench.pass_time(60)
    sweep(bench)
    told = [*bench.hub.endpoints["asker"].mailbox.entries]
    texts = [bench.slow.store.find(id)["message"].decode() for id in told]  # type: ignore[index]
    assert len(texts) == 2
    assert "the session that held bus-er-2 has ended" in texts[0] and "dead retry m1" in texts[0]
    assert "its session ended" in texts[1] and "dead retry" not in texts[1]


def test_sessions_are_read_of_ephemeral_names_only(bench: Bench) -> None:
    """Rule of loading: no body of another name is looked at."""
    store = bench.slow.store
    store.save_endpoint("worker", seen=1.0)
    store.transaction([put("m1", session="s")])
    assert store.for_sessions() == []
    store.save_endpoint("worker", seen=1.0, ephemeral=5.0)
    assert store.for_sessions() == ["m1"]
