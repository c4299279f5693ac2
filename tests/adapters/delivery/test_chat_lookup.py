"""Chats that are looked up, and chats that have moved."""

from dataclasses import replace

import pytest

from fakes.probe import OK, Finder, Host, Probe
from wakebus.adapters.base import Request, Response, Target
from wakebus.adapters.delivery import chat_lookup
from wakebus.adapters.delivery.adapter_calls import GuardedAdapter
from wakebus.adapters.delivery.chat_lookup import ChatLookups
from wakebus.adapters.delivery.context import MemoryRecord
from wakebus.adapters.errors import (
    DeliveryError,
    Moved,
    Rejected,
    Throttled,
    Unavailable,
    Uncertain,
)

ALICE = Target("probe", "@alice")
LONG = "one two three four five six seven eight nine ten"


def found(*names: str) -> list[object]:
    return [Response(200, name.encode()) for name in names]


def send(host: Host, target: Target = ALICE, adapter: Probe | None = None) -> tuple[str, str]:
    """Deliver as a message of its own; return its word and how its chat is shown."""
    result = host.send(adapter or Finder(), target=target, record=MemoryRecord())
    return result.result, result.chat


# --- look-ups ------------------------------------------------------------------------------


def test_a_chat_is_looked_up() -> None:
    """ADP-5.20: before anything goes out, in steps; the result names it as the sender did."""
    host = Host()
    host.look.script = found("@alice2", "d1")
    assert send(host) == ("sent", "probe:@alice")
    assert [request.url for request in host.look.seen] == ["look:@alice", "look:@alice2"]
    assert host.wire.of("chat") == ["d1"]


def test_it_is_kept() -> None:
    """ADP-5.20: once for all parts and deliveries of an hour."""
    host = Host()
    host.look.script = found("d1", "d2")
    host.send(Finder(), LONG, ALICE)
    send(host)
    assert (host.wire.of("chat"), len(host.look.seen)) == (["d1"] * 4, 1)
    host.time += chat_lookup.KEEP_S
    send(host)
    assert host.wire.of("chat")[-1] == "d2"


def test_a_thread_stays_with_its_chat() -> None:
    """ADP-5.20: what is kept for one thread is not taken for another's."""

    class Threads(Finder):
        def build_request(self, target: Target, outgoing: object) -> Request:
            return Request("probe:", f'{{"thread": "{target.thread}"}}'.encode())

    host = Host()
    host.look.script = found("d1")
    for thread in ("1", "2", "1"):
        send(host, replace(ALICE, thread=thread), Threads())
    assert host.wire.of("thread") == ["1", "2", "1"]


def test_accounts_do_not_mix() -> None:
    """ADP-5.20: another request (another token, another host) is another chat."""

    class Other(Finder):
        def lookup(self, target: Target) -> Request | None:
            request = super().lookup(target)
            return request and replace(request, headers={"Authorization": "other"})

    host = Host()
    host.look.script = found("d1", "d2")
    send(host)
    send(host, adapter=Other())
    assert host.wire.of("chat") == ["d1", "d2"]


def test_nothing_is_asked_of_others() -> None:
    """ADP-5.20: a chat that is one already, and an adapter that looks nothing up."""
    host = Host()
    assert send(host, Target("probe", "d7")) == ("sent", "probe:d7")
    assert send(host, adapter=Probe()) == ("sent", "probe:@alice")
    assert host.look.seen == []


@pytest.mark.parametrize(
    ("error", "word", "most"),
    [
        (Uncertain("lost"), "not_sent", 3),
        (Unavailable("down"), "not_sent", 3),
        (Throttled("slow", retry_after=60), "not_sent", 1),
        (Rejected("nobody of this name"), "rejected", 1),
        (OSError("hush"), "rejected", 1),
    ],
)
def test_one_that_fails(error: Exception, word: str, most: int) -> None:
    """ADP-5.20: nothing of the text went out: a doubt is none about it; errors are not kept."""
    host = Host()
    host.look.script = [error]
    result = host.send(Finder(), target=ALICE)
    assert (result.result, host.wire.seen, host.parts()) == (word, [], {})
    assert "hush" not in result.reason and 1 <= len(host.look.seen) <= most
    host.look.script = found("d1")
    assert send(host)[0] == "sent"


@pytest.mark.parametrize("chat", ["", "@alice"])
def test_one_that_leads_nowhere(chat: str) -> None:
    """ADP-5.20: at most four steps, and each to a chat: else it is the adapter's bug."""
    host = Host()
    host.look.script = found(chat)
    result = host.send(Finder(), target=ALICE)
    assert (result.result, host.wire.seen) == ("rejected", [])
    assert "'probe'" in result.reason and len(host.look.seen) <= chat_lookup.STEPS


def test_what_the_platform_rejects_is_looked_up_again() -> None:
    """ADP-5.20: by the next message; what it only put off is kept."""
    host = Host(Throttled("slow", retry_after=60), Rejected("no such chat"), OK)
    host.look.script = found("d1", "d2")
    assert [send(host)[0] for _ in range(3)] == ["not_sent", "rejected", "sent"]
    assert host.wire.of("chat") == ["d1", "d1", "d2"]


def test_nothing_to_forget() -> None:
    """ADP-5.20: an adapter that looks nothing up has nothing kept."""
    chat = GuardedAdapter(Probe(), ALICE)
    ChatLookups().forget(chat, chat.at(GROUP))


def test_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """ADP-5.20: a crowd of chats pushes out the oldest."""
    monkeypatch.setattr(chat_lookup, "MOST", 3)
    host = Host()
    host.lookups = ChatLookups(lambda: host.time)
    host.look.script = found("d1")
    for number in range(4):
        send(host, Target("probe", f"@{number}"))
        host.lookups.remember_move(Target("probe", str(number)), ALICE)
    send(host, Target("probe", "@3"))
    assert len(host.look.seen) == 4
    send(host, Target("probe", "@0"))
    assert len(host.look.seen) == 5
    homes = [host.lookups.home_of(Target("probe", str(number))) for number in range(4)]
    assert homes == [Target("probe", "0"), ALICE, ALICE, ALICE]


# --- chats that moved ----------------------------------------------------------------------


GROUP = Target("probe", "-7", "5")


def test_a_chat_that_moved() -> None:
    """ADP-5.21: the same part goes to the new id under the same key, once; the result says so."""
    host = Host(Moved("it is a supergroup now", "-1007"), OK)
    result = host.send(Finder(), LONG, GROUP)
    assert (result.result, result.chat, result.parts) == ("sent", "probe:-7?thread=5", 3)
    assert result.reason == "the chat has another id now, write probe:-1007?thread=5"
    assert host.wire.of("chat") == ["-7", "-1007", "-1007", "-1007"]
    assert host.wire.of("key") == ["k.1", "k.1", "k.2", "k.3"]
    assert host.waits == []


def test_the_new_id_is_kept() -> None:
    """ADP-5.21: as long as the process lives; each result says it."""
    host = Host(Moved("moved", "-1007"), OK)
    send(host, GROUP)
    host.time += 10 * chat_lookup.KEEP_S
    result = host.send(Finder(), "more", GROUP, record=MemoryRecord())
    assert "another id now" in result.reason
    assert host.wire.of("chat") == ["-7", "-1007", "-1007"]


def test_a_chat_that_moves_on() -> None:
    """ADP-5.21: twice in one delivery is a circle: `rejected`; the next one goes to the newest."""
    host = Host(Moved("moved", "-1007"), Moved("moved", "-1008"), OK)
    result = host.send(Finder(), "hi", GROUP)
    assert (result.result, result.reason) == ("rejected", "moved; and it moved before")
    assert len(host.wire.seen) == 2 and host.parts() == {}


def test_a_new_id_that_is_none() -> None:
    """ADP-5.21: what the platform writes there is checked as any chat id."""

    class Picky(Finder):
        def parse_target(self, chat_id: str, thread: str | None) -> Target:
            if chat_id != "-7":
                raise Rejected("no chat id")
            return super().parse_target(chat_id, thread)

    host = Host(Moved("moved", "../x"))
    result = host.send(Picky(), "hi", GROUP)
    assert (result.result, result.reason, len(host.wire.seen)) == ("rejected", "no chat id", 1)


def test_no_move_in_doubt() -> None:
    """ADP-5.21, ADP-5.10: what may stand in the old chat is not sent to the new one."""

    class Keeps(Finder):
        def key_time(self, target: Target, way: str) -> float:
            return 100.0

    host = Host(Uncertain("lost"), Moved("moved", "-1007"))
    result = host.send(Keeps(), "hi", GROUP)
    assert (result.result, host.wire.of("chat")) == ("uncertain", ["-7", "-7"])


def test_a_new_id_is_looked_up() -> None:
    """ADP-5.21: where the platform asks for that."""
    host = Host(Moved("moved", "@new"), OK)
    host.look.script = found("d9")
    send(host, GROUP)
    assert host.wire.of("chat") == ["-7", "d9"]
    host = Host(Moved("moved", "@new"), Moved("moved", "@new"), OK)
    host.look.script = [Unavailable("down"), *found("d9")]
    assert send(host, GROUP) == ("sent", "probe:-7?thread=5")
    assert host.wire.of("chat") == ["-7", "-7", "d9"]


def test_errors_of_moving_are_delivery_errors() -> None:
    """An error of the tree: `not_sent` for whoever does not know it."""
    assert isinstance(Moved("x", "1"), DeliveryError)


# --- a message that has begun ---------------------------------------------------------------


@pytest.mark.parametrize("ends", [Throttled("slow", retry_after=9), Uncertain("reset")])
def test_an_alias_that_leads_elsewhere_meanwhile(ends: DeliveryError) -> None:
    """ADP-6.26: what has begun stays in the chat where it is; what comes new goes to the other."""
    host = Host(OK, ends, *[OK] * 9)
    host.look.script = found("d1", "d2")
    host.send(Finder(), LONG, ALICE)
    host.time += 2 * chat_lookup.KEEP_S
    again = host.send(Finder(), LONG, ALICE)
    assert again.chat == "probe:@alice" and set(host.wire.of("chat")) == {"d1"}
    assert len(host.look.seen) == 1
    assert send(host)[0] == "sent" and host.wire.of("chat")[-1] == "d2"


def test_nothing_has_begun() -> None:
    """ADP-6.26: then the alias leads where it leads now."""
    host = Host(Throttled("slow", retry_after=9), OK)
    host.look.script = found("d1", "d2")
    host.send(Finder(), "hi", ALICE)
    host.time += 2 * chat_lookup.KEEP_S
    assert host.send(Finder(), "hi", ALICE).result == "sent"
    assert host.wire.of("chat") == ["d1", "d2"]


def test_moved_and_then_another_process() -> None:
    """ADP-6.26, ADP-5.21: it goes on at the new id without asking the old one, and says it."""
    host = Host(Moved("moved", "-1007"), OK, Throttled("slow", retry_after=9), OK)
    assert host.send(Finder(), LONG, Target("probe", "-5")).done == 1
    host.lookups = ChatLookups(lambda: host.time)
    result = host.send(Finder(), LONG, Target("probe", "-5"))
    assert host.wire.of("chat") == ["-5", *["-1007"] * 4]
    assert (result.result, result.reason) == (
        "sent",
        "the chat has another id now, write probe:-1007",
    )
