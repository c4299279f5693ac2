"""Newer Hermes says yes to a turn before anything has happened; then four things may come."""

from collections.abc import Callable

import pytest

from fakes.broker import until
from fakes.gateway import QUICK, Gateway
from fakes.hermes import Town, dm, group
from fakes.hermes_newer import Injector, make_newer
from wakebus.broker.errors import TimedOut

MakeGateway = Callable[..., Gateway]

CI = {"match_type": "ci", "context": True}
DM1 = "mattermost:dm1"
KEY = "agent:main:mattermost:dm:dm1"
BRIEF = QUICK._replace(accepted=2.0)


@pytest.fixture
def inject(town: Town, monkeypatch: pytest.MonkeyPatch) -> Injector:
    """The way into a town of 0.22.2; u1 has written in dm1."""
    found = make_newer(town, monkeypatch)
    town.ask("hello", dm())
    return found


def accepted(gateway: Gateway, inject: Injector, text: str = "do it") -> str:
    """Send a message; return its id once Hermes has said yes."""
    number = len(inject.accepted)
    id = gateway.send(text, channel=DM1)
    until(lambda: len(inject.accepted) > number)
    return id


def queued(town: Town, gateway: Gateway, inject: Injector) -> str:
    """Send a message; return its id when it waits in Hermes's queue behind a person's turn."""
    inject.open.clear()
    id = accepted(gateway, inject)
    town.held.clear()
    town.say("HOLD on", dm())
    until(lambda: town.runner.turns[-1] == "HOLD on")
    inject.open.set()
    until(lambda: town.adapter._pending_messages)
    return id


def test_it_begins(town: Town, make_gateway: MakeGateway, inject: Injector) -> None:
    """HERMES-3.17: as the person whose session it is; the answer is in the chat."""
    gateway = make_gateway(CI, inject=inject)
    told = gateway.do("do it", channel=DM1)
    assert told["channel"]["result"] == "answered" and told["turn"]["session"] == KEY
    assert inject.accepted == [KEY] and len(town.adapter.posts) == 2


def test_it_waits_in_hermes_own_queue(
    town: Town, make_gateway: MakeGateway, inject: Injector
) -> None:
    """HERMES-3.17: behind a person who came in between; nobody is interrupted, it runs once."""
    gateway = make_gateway(CI, inject=inject)
    id = queued(town, gateway, inject)
    town.held.set()
    assert gateway.outcome(id)["turn"]["characters"] > 0
    assert town.runner.interrupted == [] and len(town.runner.turns) == 3


def test_nothing_comes_of_it(town: Town, make_gateway: MakeGateway, inject: Injector) -> None:
    """HERMES-3.18: in doubt, said so, and not sent again by itself; listed as uncertain."""
    gateway = make_gateway(CI | {"retries": 3}, inject=inject, intervals=BRIEF)
    inject.loses = True
    id = accepted(gateway, inject)
    told = gateway.outcome(id, "dead")
    receipt = gateway.sender.wait(id, 5)
    why = "Hermes accepted it and did not begin it in 2 s (gateway.log may say why)"
    assert receipt.reason == f"in doubt: {why}" and not receipt.failed
    assert told["channel"] == {**told["channel"], "result": "uncertain", "reason": why, "to": DM1}
    assert told["failure_told"]["result"] == "sent", "the chat is told in a line"
    assert "could not do" in town.adapter.posts[-1][1]
    (row,) = gateway.sender.inbox(gateway.name, all=True)
    assert (row["id"], row["result"]) == (id, "uncertain")
    kept = gateway.sender.retry([id])["kept"]
    assert "--force" in kept[0]["why"] and len(inject.accepted) == 1


def test_it_is_refused(town: Town, make_gateway: MakeGateway, inject: Injector) -> None:
    """HERMES-3.17: in Hermes's log alone: that is heard, at once, and told in its words."""
    gateway = make_gateway(CI, inject=inject)
    inject.denies = True
    id = accepted(gateway, inject)
    assert "Plugin message injection denied by current gateway authorization" in gateway.failed(id)
    assert "channel" not in gateway.outcome(id, "dead")


def test_the_gateway_stops_behind_the_yes(
    town: Town, make_gateway: MakeGateway, inject: Injector
) -> None:
    """HERMES-3.9, HERMES-3.17: what it refuses then comes again, when it is back."""
    gateway = make_gateway(CI, inject=inject)
    inject.open.clear()
    id = accepted(gateway, inject)
    town.runner._draining = True
    inject.open.set()
    until(lambda: "is stopping" in str(gateway.steps(id, "later")))
    town.runner._draining = False
    assert gateway.outcome(id)["channel"]["result"] == "answered" and len(inject.accepted) == 2


def test_its_session_is_another_by_now(
    town: Town, make_gateway: MakeGateway, inject: Injector
) -> None:
    """HERMES-3.17: `/new` while it waited: Hermes drops it and says nothing; it has not begun."""
    gateway = make_gateway(CI, inject=inject)
    id = queued(town, gateway, inject)
    town.runner.session_store.entries[KEY].session_id = "another"
    town.held.set()
    assert "did not begin the turn" in gateway.failed(id)
    assert len(town.runner.turns) == 2


def test_a_person_gives_new_meanwhile(
    town: Town, make_gateway: MakeGateway, inject: Injector
) -> None:
    """HERMES-3.18: what hooks tell of the session is the reason, and the wait is short."""
    gateway = make_gateway(CI, inject=inject, intervals=BRIEF)
    inject.loses = True
    id = accepted(gateway, inject)
    town.tracker.on_stopped([KEY], "a reset of its session")
    gateway.outcome(id, "dead")
    assert "after a reset of its session (gateway.log" in gateway.sender.wait(id, 5).reason


def test_it_begins_late(town: Town, make_gateway: MakeGateway, inject: Injector) -> None:
    """HERMES-3.18: recognised as ours; its chat sees the answer only where its rule says so."""
    gateway = make_gateway(
        CI | {"reply": "sender", "on_failure": {"chat": False}}, inject=inject, intervals=BRIEF
    )
    inject.open.clear()
    id = accepted(gateway, inject)
    gateway.outcome(id, "dead")
    (turn,) = town.tracker._all()
    assert turn.doubt and not turn.began.is_set()
    inject.open.set()
    until(turn.ended.is_set)
    until(lambda: not town.adapter._active_sessions)
    assert turn.withheld and len(town.adapter.posts) == 1 and len(town.runner.turns) == 2


def test_its_time_is_over_before_it_begins(
    town: Town, make_gateway: MakeGateway, inject: Injector
) -> None:
    """HERMES-3.18: what waits in Hermes's queue is taken back: that has failed, without a doubt."""
    gateway = make_gateway(CI | {"timeout_s": 1}, inject=inject)
    id = queued(town, gateway, inject)
    assert "the time limit was over before it began" in gateway.failed(id)
    town.held.set()
    until(lambda: not town.adapter._active_sessions)
    assert len(town.runner.turns) == 2


def test_a_message_is_cancelled_in_the_queue(
    town: Town, make_gateway: MakeGateway, inject: Injector
) -> None:
    """HERMES-3.17, HERMES-3.15: it never begins."""
    gateway = make_gateway(CI, inject=inject)
    id = queued(town, gateway, inject)
    assert gateway.sender.cancel(id, by="ci").told
    gateway.outcome(id, "dead")
    town.held.set()
    until(lambda: not town.adapter._active_sessions)
    assert town.runner.turns[-1] == "HOLD on" and town.tracker._all() == []


def test_this_endpoint_leaves_the_bus(
    town: Town, make_gateway: MakeGateway, inject: Injector
) -> None:
    """HERMES-3.17: it comes again elsewhere; so Hermes's queue must not hold it."""
    gateway = make_gateway(CI, inject=inject)
    queued(town, gateway, inject)
    gateway.stop.set()
    until(lambda: not town.adapter._pending_messages)
    town.held.set()
    until(lambda: not town.adapter._active_sessions)
    assert town.runner.turns[-1] == "HOLD on"


# --- a person writes into it ------------------------------------------------------------------


def redirected(town: Town, gateway: Gateway) -> str:
    """Send a message; return its id once a person has directed its turn anew."""
    town.held.clear()
    id = gateway.send("HOLD this", channel=DM1)
    until(lambda: len(town.runner.turns) == 2)
    town.runner._running_agents[KEY]._turn_user_intervened = True
    town.runner.steered = True  # as hooks.py reads in the history, at its end
    return id


def test_a_person_redirects_a_turn_that_nobody_sees(
    town: Town, make_gateway: MakeGateway, inject: Injector
) -> None:
    """HERMES-3.7, HERMES-3.17: no hook tells of it; the answer is that person's, and is shown."""
    gateway = make_gateway(CI | {"reply": "sender"}, inject=inject)
    id = redirected(town, gateway)
    town.held.set()
    told = gateway.outcome(id)
    assert told["channel"]["result"] == "answered" and len(town.adapter.posts) == 2
    assert told["turn"]["steered"] is True and told["answer"]["result"] == "not_sent"


def test_a_person_who_writes_at_its_end_has_a_turn_of_their_own(
    town: Town, make_gateway: MakeGateway, inject: Injector
) -> None:
    """HERMES-3.7: the history tells whose words were answered: nobody sees what is not theirs."""
    gateway = make_gateway(CI | {"reply": "sender"}, inject=inject)
    id = redirected(town, gateway)
    town.runner.steered = False
    town.held.set()
    assert gateway.outcome(id)["turn"]["hidden"] is True and len(town.adapter.posts) == 1


def test_a_redirected_turn_is_not_cancelled(
    town: Town, make_gateway: MakeGateway, inject: Injector
) -> None:
    """HERMES-3.15: it goes on, for it is a person's by now."""
    gateway = make_gateway(CI, inject=inject)
    id = redirected(town, gateway)
    gateway.sender.cancel(id, by="ci")
    until(lambda: gateway.steps(id, "cancelled"))
    town.held.set()
    gateway.outcome(id, "dead")
    assert town.runner.stopped == [] and len(town.adapter.posts) == 2


# --- who is nobody ----------------------------------------------------------------------------


def test_the_home_channel_is_answered_again(
    town: Town, make_gateway: MakeGateway, inject: Injector
) -> None:
    """HERMES-3.5, HERMES-3.17: of nobody, whom Hermes would refuse: begun by the other way."""
    gateway = make_gateway(CI, environ={"MATTERMOST_HOME_CHANNEL": "home"}, inject=inject)
    for text in ("first", "second"):
        told = gateway.do(text, channel="mattermost")
        assert told["channel"] == {**told["channel"], "result": "answered", "to": "mattermost:home"}
    assert inject.accepted == []
    assert [chat for chat, _, _ in town.adapter.posts] == ["dm1", "home", "home"]


def test_a_person_of_a_shared_session(
    town: Town, make_gateway: MakeGateway, inject: Injector
) -> None:
    """HERMES-3.17: Hermes asks for who began it; it is run as the person who may talk."""
    gateway = make_gateway(CI, inject=inject)
    town.ask("hello", group(user="u2", thread_id="t1"))
    town.runner.allowed.discard("u2")
    gateway.host.on_message(type("Event", (), {"source": group(user="u1", thread_id="t1")}))
    told = gateway.do("go", channel="mattermost:grp1?thread=t1")
    assert told["channel"]["result"] == "answered" and inject.accepted == []


def test_who_may_talk_is_known_from_their_admission(
    town: Town, make_gateway: MakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HERMES-3.2, HERMES-3.20: by the hook, where Hermes does not show it otherwise."""
    for name in ("_is_user_authorized", "_session_key_for_source"):
        monkeypatch.delattr(type(town.runner), name)
    gateway = make_gateway(CI)
    fields = {"platform": "mattermost", "chat_id": "dm1", "chat_type": "dm", "user_id": "u1"}
    place = gateway.host._conversations
    source = gateway.host._hermes.source_of(fields)
    assert source == dm() and not place.may_talk(source) and place.key_of(source) == ""
    gateway.host.on_admitted(KEY, fields)
    assert place.may_talk(source) and place.key_of(source) == KEY
    assert not place.may_talk(dm(user="u2"))


def waits_for(gateway: Gateway, id: str) -> str:
    """What `--wait` says that a message waits for (RULES-3.12)."""
    with pytest.raises(TimedOut) as caught:
        gateway.sender.wait(id, 0)
    return str(caught.value.data.get("why", ""))


# --- an emergency stop ------------------------------------------------------------------------


def test_nothing_new_begins_while_hermes_is_paused(
    town: Town, make_gateway: MakeGateway, inject: Injector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HERMES-3.19: the message waits, a print goes out; then its turn comes."""
    why = ["Hermes is paused"]
    monkeypatch.setattr("wakebus.plugin.hermes.host_api.private_gateway.paused", lambda: why[0])
    gateway = make_gateway(CI, {"match_type": "note", "print": True}, inject=inject)
    id = gateway.send("do it", channel=DM1)
    until(lambda: any("paused" in str(step) for step in gateway.steps(id, "later")))
    until(lambda: "Hermes is paused; again in " in waits_for(gateway, id))
    told = gateway.do("printed", type="note", channel="mattermost:dm2")
    assert told["actions"][0]["result"] == "sent" and inject.accepted == []
    why[0] = ""
    assert gateway.outcome(id)["channel"]["result"] == "answered"


def test_a_turn_that_hermes_calls_failed(
    town: Town, make_gateway: MakeGateway, inject: Injector
) -> None:
    """HERMES-3.17, RULES-8.1: `on_session_end` says so; its own words are no answer."""
    gateway = make_gateway(CI | {"reply": "both"}, inject=inject)
    town.runner.ends = {"failed": True, "exit_reason": "all_retries_exhausted"}
    id = gateway.send("do it", channel=DM1)
    assert "Hermes: all_retries_exhausted" in gateway.failed(id)
    assert "answer" not in gateway.outcome(id, "dead")


def test_retry_is_no_second_run(town: Town, make_gateway: MakeGateway, inject: Injector) -> None:
    """HERMES-3.18: only who says --force has it done again."""
    gateway = make_gateway(CI | {"on_failure": {"chat": False}}, inject=inject, intervals=BRIEF)
    inject.loses = True
    id = accepted(gateway, inject)
    gateway.outcome(id, "dead")
    inject.loses = False
    assert gateway.sender.retry([id])["retried"] == []
    assert gateway.sender.retry([id], force=True)["retried"] == [id]
    assert gateway.outcome(id)["channel"]["result"] == "answered"
