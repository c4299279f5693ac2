"""Messages in a gateway: from arriving to their outcome, with a real broker."""

import asyncio
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from fakes.broker import Broker, until
from fakes.gateway import Gateway
from fakes.hermes import SESSION, MessageEvent, Platform, SendResult, Town, dm, group
from wakebus.broker import Refusal
from wakebus.plugin.hermes.shared.turn_grant import LINE

MakeGateway = Callable[..., Gateway]

CI = {"match_type": "ci", "context": True}
NOTE = {"match_type": "note", "print": True}
DM1 = "mattermost:dm1"
DM1_KEY = "agent:main:mattermost:dm:dm1"


def test_a_turn_in_the_persons_session(town: Town, make_gateway: MakeGateway) -> None:
    """HERMES-3.1: as the person who wrote there, by the core, which delivers the answer (peer
    failure 1: it was run as user dm1, denied, and told OK)."""
    gateway = make_gateway(CI)
    town.ask("hello", dm())
    outcome = gateway.do("build is red", channel=DM1)
    assert outcome["turn"]["session"] == DM1_KEY
    assert outcome["channel"]["result"] == "answered"
    assert outcome["channel"]["to"] == DM1
    assert outcome["turn"]["characters"] > 0 and "error" not in outcome["turn"]
    assert "build is red" in town.runner.turns[-1]
    assert town.adapter.posts[-1][0] == "dm1" and len(town.adapter.posts) == 2
    assert list(town.runner.session_store.entries) == [DM1_KEY]


def test_a_group_is_a_session_per_person(town: Town, make_gateway: MakeGateway) -> None:
    """HERMES-3.2, peer failure 2: not a direct chat beside it."""
    gateway = make_gateway(CI)
    town.ask("hello", group())
    outcome = gateway.do("text", channel="mattermost:grp1")
    assert outcome["turn"]["session"] == "agent:main:mattermost:channel:grp1:u1"


def test_a_busy_session_is_waited_for(
    town: Town, make_gateway: MakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HERMES-3.4, peer failure 3: the person's turn is neither interrupted nor merged with."""
    gateway = make_gateway(CI | {"interrupt": True})
    busy, seen = gateway.host._hermes.busy, list[str]()

    def seen_busy(source: Any, key: str) -> str:
        seen.append(busy(source, key))
        return seen[-1]

    monkeypatch.setattr(gateway.host._hermes, "busy", seen_busy)
    town.held.clear()
    town.say("HOLD on", dm())
    until(lambda: town.runner.turns)
    handled = town.adapter.handled
    id = gateway.send("after it", channel=DM1)
    until(lambda: seen)
    assert town.adapter.handled == handled and town.runner.interrupted == []
    town.held.set()
    outcome = gateway.outcome(id)
    assert outcome["turn"]["queued_behind"] is True
    assert [text for text in town.runner.turns if "HOLD on" in text] == ["HOLD on"]
    assert town.adapter.posts[0][1].endswith("HOLD on")


def test_chats_never_mix(town: Town, make_gateway: MakeGateway) -> None:
    """HERMES-3.2, peer failure 4: each text ran in its own chat, also while others are busy."""
    gateway = make_gateway(CI)
    chats = [f"dm{number}" for number in range(4)]
    for chat in chats:
        town.ask("hello", dm(chat))
    ids = {
        gateway.send(f"for {chat} number {number}", channel=f"mattermost:{chat}"): chat
        for number in range(4)
        for chat in chats
    }
    for id, chat in ids.items():
        told = gateway.outcome(id)
        assert told["turn"]["session"].endswith(f":{chat}")
    assert len(town.adapter.posts) == 4 + 16


def test_a_context_waits_for_its_session_only(town: Town, make_gateway: MakeGateway) -> None:
    """HERMES-3.3, peer failure 6: under the session's key, or its channel's where there is none."""
    gateway = make_gateway(CI | {"wake": "next_turn"})
    town.ask("hello", dm())
    outcome = gateway.do("later", channel=DM1)
    assert outcome["actions"][0]["session"] == DM1_KEY
    gateway.do("later", channel="mattermost:dm9")
    assert gateway.context.counts() == {DM1_KEY: 1, "mattermost:dm9": 1}
    assert len(town.runner.turns) == 1


def test_what_names_nothing_goes_to_nobody(town: Town, make_gateway: MakeGateway) -> None:
    """HERMES-3.3: no channel, no session: printed and in the inbox, with a note."""
    gateway = make_gateway(CI)
    town.ask("hello", dm())
    outcome = gateway.do("for whom")
    assert outcome["actions"][0]["what"] == "inbox"
    assert "neither channel nor session" in outcome["note"]
    assert "for whom" in gateway.printed.getvalue()
    assert gateway.context.counts() == {} and len(town.runner.turns) == 1


def test_texts_are_no_commands(town: Town, make_gateway: MakeGateway) -> None:
    """Peer failure 8: what reaches Hermes begins with a label."""
    gateway = make_gateway(CI)
    town.ask("hello", dm())
    for text in ("/status", "yes", "restart gateway", "```"):
        gateway.do(text, channel=DM1)
        assert town.runner.turns[-1].startswith("[wakebus]")


def test_print_is_in_the_chat(town: Town, make_gateway: MakeGateway) -> None:
    """HERMES-3.8: by the live adapter, with the platform's id."""
    gateway = make_gateway(NOTE)
    outcome = gateway.do("done", type="note", channel="mattermost:grp7?thread=t1")
    action = outcome["actions"][0]
    assert (action["result"], action["id"]) == ("sent", "p0")
    chat, text, metadata = town.adapter.posts[0]
    assert chat == "grp7" and "done" in text and metadata == {"thread_id": "t1"}


def test_without_a_rule_it_is_shown(town: Town, make_gateway: MakeGateway) -> None:
    """RULES-1.4, peer failure 12: in the chat, where it names one, else on the terminal."""
    gateway = make_gateway()
    outcome = gateway.do("x", type="unheard", channel=DM1)
    assert outcome["rule"] == "none" and outcome["actions"][0]["result"] == "sent"
    assert [text for _, text, _ in town.adapter.posts] == ["tester: x"]
    gateway.do("y", type="unheard")
    assert "tester: y" in gateway.printed.getvalue() and len(town.adapter.posts) == 1


def test_without_the_grant(
    town: Town, make_gateway: MakeGateway, caplog: pytest.LogCaptureFixture
) -> None:
    """HERMES-3.6: it waits for the next turn; said in each outcome, once in the log."""
    gateway = make_gateway(CI)
    gateway.grant.on = False
    town.ask("hello", dm())
    with caplog.at_level(logging.WARNING, "wakebus"):
        outcomes = [gateway.do(text, channel=DM1) for text in ("one", "two")]
    assert all(LINE in outcome["note"] for outcome in outcomes)
    assert gateway.context.counts() == {DM1_KEY: 2} and len(town.runner.turns) == 1
    assert sum(LINE in record.getMessage() for record in caplog.records) == 1


def test_the_sender_alone(town: Town, make_gateway: MakeGateway) -> None:
    """HERMES-3.7: `reply: sender`: the sender has the true answer, the chat nothing."""
    gateway = make_gateway(CI | {"reply": "sender"})
    town.ask("hello", dm())
    got = gateway.sender.ask(
        gateway.name, "how many", type="ci", channel=DM1, wait=30, sender="asker"
    )
    assert got.message is not None and got.message.text.startswith("answer to")
    outcome = gateway.outcome(got.receipt.id)
    assert outcome["answered"] is True and "channel" not in outcome
    assert len(town.adapter.posts) == 1


def test_nobody(town: Town, make_gateway: MakeGateway) -> None:
    """HERMES-3.7: `reply: none`: the answer is in the outcome."""
    gateway = make_gateway(CI | {"reply": "none"})
    town.ask("hello", dm())
    outcome = gateway.do("quiet", channel=DM1)
    assert outcome["unsent"]["text"].startswith("answer to")
    assert len(town.adapter.posts) == 1


def test_both(town: Town, make_gateway: MakeGateway) -> None:
    """HERMES-3.7: who waits for the answer has it, and so has the chat."""
    gateway = make_gateway(CI)
    town.ask("hello", dm())
    got = gateway.sender.ask(gateway.name, "now", type="ci", channel=DM1, wait=30, sender="asker")
    assert got.message is not None and got.message.text.startswith("answer to")
    outcome = gateway.outcome(got.receipt.id)
    assert outcome["answered"] is True and outcome["channel"]["result"] == "answered"
    assert len(town.adapter.posts) == 2


def test_an_answer_returns_to_the_session_that_asked(town: Town, make_gateway: MakeGateway) -> None:
    """HERMES-3.2: a message that answers, or was caused by, what bus_send sent from there."""
    gateway = make_gateway(CI)
    town.ask("hello", group(user="u1"))
    town.ask("hello", group(user="u2"))  # the last who was heard there
    key = "agent:main:mattermost:channel:grp1:u1"
    SESSION.set({"KEY": key})
    gateway.host.remember_sent("asked-1")
    SESSION.set(None)
    for field in ("reply_to", "cause"):
        outcome = gateway.do("so", channel="mattermost:grp1", **{field: "asked-1"})
        assert outcome["turn"]["session"] == key


def test_a_named_chat_wins(town: Town, make_gateway: MakeGateway) -> None:
    """HERMES-3.2: what answers a question of one chat and names another goes to the other."""
    gateway = make_gateway(CI)
    town.ask("hello", dm())
    town.ask("hello", dm("dm2", "u2"))
    SESSION.set({"KEY": DM1_KEY})
    gateway.host.remember_sent("asked-1")
    SESSION.set(None)
    two = "agent:main:mattermost:dm:dm2"
    for field in ("reply_to", "cause"):
        named = gateway.do("so", channel="mattermost:dm2", **{field: "asked-1"})
        assert named["turn"]["session"] == two
    session = gateway.do("so", channel="mattermost:dm2", session=two, cause="asked-1")
    assert session["turn"]["session"] == two


def test_a_person_writes_into_a_hidden_turn(town: Town, make_gateway: MakeGateway) -> None:
    """HERMES-3.7: `/steer` in a turn with `reply: sender`: the person is answered, not the peer."""
    gateway = make_gateway(CI | {"reply": "sender"})
    town.ask("hello", dm())
    town.held.clear()
    id = gateway.send("HOLD this", type="ci", channel=DM1)
    until(lambda: len(town.runner.turns) == 2)
    gateway.host.on_message(MessageEvent("/steer my pin is 4711", source=dm()))
    town.runner.steered = True
    town.held.set()
    outcome = gateway.outcome(id)
    assert outcome["answer"]["result"] == "not_sent" and "a person wrote" in str(outcome["answer"])
    assert outcome["channel"]["result"] == "answered" and len(town.adapter.posts) == 2


def test_a_hidden_turn_that_goes_on(town: Town, make_gateway: MakeGateway) -> None:
    """HERMES-3.7: after its time limit the chat sees nothing either; the next turn it does."""
    quiet = {"reply": "sender", "timeout_s": 0.1, "on_failure": {"chat": False}}
    gateway = make_gateway(CI | quiet)
    town.ask("hello", dm())
    town.held.clear()
    assert "goes on in Hermes" in gateway.failed(gateway.send("HOLD this", channel=DM1))
    town.held.set()
    until(lambda: not town.runner._running_agents and not town.adapter._active_sessions)
    assert len(town.adapter.posts) == 1
    town.ask("for the person", dm())


def test_a_hidden_turn_that_begins_late(
    town: Town, make_gateway: MakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HERMES-3.7: nor where Hermes begins it only after its time limit."""
    quiet = {"reply": "sender", "timeout_s": 0.1, "on_failure": {"chat": False}}
    gateway = make_gateway(CI | quiet)
    town.ask("hello", dm())
    handle, go = town.runner.handle, asyncio.Event()

    async def late(event: MessageEvent) -> str:
        await go.wait()
        return await handle(event)

    monkeypatch.setattr(town.runner, "handle", late)
    assert "goes on in Hermes" in gateway.failed(gateway.send("do", channel=DM1))
    town.loop.call_soon_threadsafe(go.set)
    until(lambda: not town.adapter._active_sessions)
    assert len(town.runner.turns) == 2 and len(town.adapter.posts) == 1


def test_a_turn_that_goes_on_beside_its_thread(town: Town, make_gateway: MakeGateway) -> None:
    """HERMES-3.12: after its time limit its answer is not put in front of everybody either."""
    gateway = make_gateway(CI | {"timeout_s": 0.1, "on_failure": {"chat": False}})
    town.ask("hello", group(thread_id="t1"))
    town.adapter._reply_mode = "off"
    town.held.clear()
    id = gateway.send("HOLD this", channel="mattermost:grp1?thread=t1")
    assert "goes on in Hermes" in gateway.failed(id)
    town.held.set()
    until(lambda: not town.runner._running_agents and not town.adapter._active_sessions)
    assert len(town.adapter.posts) == 1


def test_a_person_writes_into_a_hidden_turn_that_goes_on(
    town: Town, make_gateway: MakeGateway
) -> None:
    """HERMES-3.7: after its time limit, too, that person is answered."""
    quiet = {"reply": "sender", "timeout_s": 1, "on_failure": {"chat": False}}
    gateway = make_gateway(CI | quiet)
    town.ask("hello", dm())

    async def written_into(text: str) -> str:
        gateway.host.on_message(MessageEvent("/steer my pin is 4711", source=dm()))
        return await town._agent(text)

    town.runner.agent = written_into
    town.held.clear()
    assert "goes on in Hermes" in gateway.failed(gateway.send("HOLD this", channel=DM1))
    town.held.set()
    until(lambda: len(town.adapter.posts) == 2)


def test_a_person_writes_into_a_hidden_turn_after_its_time_limit(
    town: Town, make_gateway: MakeGateway
) -> None:
    """HERMES-3.7: whoever asks something of a turn that goes on is answered."""
    quiet = {"reply": "sender", "timeout_s": 0.1, "on_failure": {"chat": False}}
    gateway = make_gateway(CI | quiet)
    town.ask("hello", dm())
    town.held.clear()
    assert "goes on in Hermes" in gateway.failed(gateway.send("HOLD this", channel=DM1))
    gateway.host.on_message(MessageEvent("/steer my pin is 4711", source=dm()))
    town.held.set()
    until(lambda: len(town.adapter.posts) == 2)


def test_the_grant_is_asked_again(town: Town, make_gateway: MakeGateway) -> None:
    """HERMES-3.6: taken away while a message waits for its turn: it becomes a note."""
    gateway = make_gateway(CI)
    town.held.clear()
    town.say("HOLD this", dm())
    until(lambda: len(town.runner.turns) == 1)
    id = gateway.send("later", type="ci", channel=DM1)
    until(lambda: gateway.sender.trace(id)[0]["state"] in ("delivered", "held"))
    gateway.grant.on = False
    town.held.set()
    assert LINE in gateway.outcome(id)["note"] and len(town.runner.turns) == 1


def test_names_of_a_session(town: Town, make_gateway: MakeGateway) -> None:
    """HERMES-3.3: its key and its channel, from where it runs or from its id."""
    gateway = make_gateway()
    town.ask("hello", dm())
    assert gateway.host.names(f"id of {DM1_KEY}") == (DM1_KEY, DM1)
    assert gateway.host.names("unknown") == () and gateway.host.channel() == ""
    token = SESSION.set({"KEY": "k", "PLATFORM": "mattermost", "CHAT_ID": "town", "THREAD_ID": "t"})
    assert gateway.host.names("") == ("k", "mattermost:town?thread=t")
    SESSION.reset(token)


def test_the_inbox_of_a_session(town: Town, make_gateway: MakeGateway) -> None:
    """HERMES-5.10: its own by session, else by channel, and what names nobody; no other chat's."""
    gateway = make_gateway()
    town.ask("hello", dm())
    may_show = gateway.host.may_show(f"id of {DM1_KEY}")
    assert may_show(DM1, "") and may_show("", DM1_KEY)
    assert may_show("", "") and may_show("other:x", DM1_KEY)
    assert not may_show("mattermost:dm2", "") and not may_show(DM1, "agent:main:other")
    assert not may_show("mattermost", "") and not may_show("no channel\n", "")
    own = SimpleNamespace(chat_id="home", thread_id=None)
    town.runner.config.platforms[Platform.MATTERMOST].home_channel = own
    token = SESSION.set({"KEY": "k", "PLATFORM": "mattermost", "CHAT_ID": "home"})
    assert gateway.host.may_show("")("mattermost", "")
    SESSION.reset(token)


def test_sessions_without_chats_have_no_channel(town: Town, make_gateway: MakeGateway) -> None:
    """HERMES-3.3: what an API server or cron runs is nobody's chat."""
    gateway = make_gateway()
    token = SESSION.set({"KEY": "k", "PLATFORM": "api_server", "CHAT_ID": "c"})
    assert gateway.host.names("") == ("k",)
    SESSION.reset(token)


def test_answers_shown_as_they_are_written_cannot_be_hidden(
    town: Town, make_gateway: MakeGateway
) -> None:
    """HERMES-3.7: then the chat has them too, and the outcome says so."""
    gateway = make_gateway(CI | {"reply": "none"})
    town.runner.config.streaming = type("Streaming", (), {"enabled": True, "transport": "auto"})
    town.ask("hello", dm())
    assert gateway.do("quiet", channel=DM1)["channel"]["result"] == "answered"


def test_answers_shown_as_they_are_written_are_left_whole_after_the_time_limit(
    town: Town, make_gateway: MakeGateway
) -> None:
    """HERMES-3.7: the chat has them by then; their end is not another text."""
    quiet = {"reply": "none", "timeout_s": 0.1, "on_failure": {"chat": False}}
    gateway = make_gateway(CI | quiet)
    town.runner.config.streaming = type("Streaming", (), {"enabled": True, "transport": "auto"})
    town.ask("hello", dm())
    town.held.clear()
    assert "goes on in Hermes" in gateway.failed(gateway.send("HOLD this", channel=DM1))
    town.held.set()
    until(lambda: len(town.adapter.posts) == 2)


def test_answers_of_others_are_not_touched(town: Town, make_gateway: MakeGateway) -> None:
    """HERMES-3.7: a person's turn, before and after one of ours that nobody sees."""
    gateway = make_gateway(CI | {"reply": "none"})
    town.ask("hello", dm())
    gateway.do("quiet", channel=DM1)
    assert gateway.host.is_unseen(f"id of {DM1_KEY}")
    town.ask("and me", dm())
    assert not gateway.host.is_unseen(f"id of {DM1_KEY}")
    assert [text[-5:] for _, text, _ in town.adapter.posts] == ["hello", "nd me"]
    assert len(town.runner.history) == 3, "the history has what the chat has not"


def test_a_command_has_the_chat_in_which_it_was_typed(
    town: Town, make_gateway: MakeGateway
) -> None:
    """HERMES-5.11: Hermes binds no session to a command; outside of it nobody's chat is taken."""
    gateway = make_gateway()
    gateway.host.on_message(SimpleNamespace(source=group(user="u1")))
    assert gateway.host.channel() == ""
    with gateway.host.commanding():
        assert gateway.host.channel() == "mattermost:grp1"
        gateway.host.remember_sent("typed-1")
    assert gateway.host.channel() == ""
    assert gateway.host.session_of_sent("typed-1") == "agent:main:mattermost:channel:grp1:u1"


# --- what no chat has is not called done ----------------------------------------------------


def print_refused(gateway: Gateway, channel: str, text: str = "x", **fields: str) -> str:
    """Send a print that becomes a dead letter; return its reason."""
    id = gateway.send(text, type="note", channel=channel, **fields)
    told = gateway.outcome(id, "dead")
    assert told["actions"][0]["result"] in ("rejected", "not_sent", "uncertain"), told
    assert "failed" not in told and gateway.printed.getvalue() == ""
    return gateway.sender.wait(id, 5).reason


def test_a_print_that_is_rejected(town: Town, make_gateway: MakeGateway, broker: Broker) -> None:
    """HERMES-3.8: a dead letter with the platform's words; no line on our own terminal."""
    gateway = make_gateway(NOTE, address=broker.address)  # where no courier is known
    town.adapter.sends = [SendResult(False, error="HTTP 403: no permission")]
    why = print_refused(gateway, DM1)
    assert why == f"not shown in {DM1}: HTTP 403: no permission"
    town.adapter.sends = [SendResult(True), SendResult(False, error="HTTP 413: too much")]
    assert "1 of 3 parts are there" in print_refused(gateway, DM1, "x" * 9000)


def test_a_print_without_a_home(town: Town, make_gateway: MakeGateway) -> None:
    """HERMES-3.5: refused, naming both ways to set one; never on the gateway's own terminal."""
    gateway = make_gateway(NOTE)
    id = gateway.send("x", type="note", channel="mattermost")
    gateway.outcome(id, "dead")
    reason = gateway.sender.wait(id, 5).reason
    assert "/sethome" in reason and "MATTERMOST_HOME_CHANNEL" in reason
    assert gateway.printed.getvalue() == "" and town.adapter.posts == []


def test_a_print_beside_a_command(town: Town, make_gateway: MakeGateway) -> None:
    """HERMES-3.8: the command is done all the same, and the outcome tells the print."""
    gateway = make_gateway(NOTE | {"command": "true"})
    town.adapter.sends = [SendResult(False, error="HTTP 403: no")]
    shown, ran = gateway.do("x", type="note", channel=DM1)["actions"]
    assert shown["result"] == "rejected" and ran["status"] == 0
    bare, _ = gateway.do("x", type="note", channel="mattermost")["actions"]
    assert bare["result"] == "not_sent" and "/sethome" in bare["reason"]
    assert gateway.printed.getvalue() == ""


def test_a_print_in_doubt_is_listed(town: Town, make_gateway: MakeGateway) -> None:
    """HERMES-3.8: handled, not sent again, and in `wakebus inbox --uncertain`."""
    gateway = make_gateway(NOTE)
    town.adapter.sends = [SendResult(False, error="HTTP 500: ill")]
    id = gateway.send("x", type="note", channel=DM1)
    assert gateway.outcome(id)["actions"][0]["result"] == "uncertain"
    rows = gateway.sender.inbox(gateway.name, all=True)
    assert [row["id"] for row in rows if row.get("result") == "uncertain"] == [id]


def test_a_notice_of_what_was_sent_from_here(town: Town, make_gateway: MakeGateway) -> None:
    """HERMES-3.11: whatever its channel, it is handled: for that session, else in the inbox."""
    notice = {"match_type": "notice", "context": True, "print": "always"}
    gateway = make_gateway(notice)
    town.runner.session_store.put(dm())
    to = f"{gateway.name}-x"
    gateway.sender.register(to, lambda _: Refusal("no"))
    for sent_from, where in (("", ""), (DM1_KEY, DM1_KEY)):
        id = gateway.client.send(to, {"text": "x", "type": "t", "channel": "telegram:1"}).id
        if sent_from:
            gateway.host._sent_from.put(id, sent_from)

        def told(id: str = id) -> list[Any]:
            rows = gateway.sender.trace(id)
            return [row for row in rows if row["type"] == "notice" and row["state"] == "handled"]

        until(told)
        (row,) = told()
        done = row["outcome"]["actions"][0]
        assert done["what"] == ("context" if where else "inbox") and row["state"] == "handled"
        assert not where or done["session"] == where
    assert "is a dead letter" in gateway.printed.getvalue()


def test_an_answer_that_hermes_would_put_elsewhere(town: Town, make_gateway: MakeGateway) -> None:
    """HERMES-3.12: in a thread that its reply mode drops the courier takes it, once."""
    gateway = make_gateway(CI)
    town.ask("hello", group(thread_id="t1"))
    town.adapter._reply_mode = "off"
    before, channel = len(town.adapter.posts), "mattermost:grp1?thread=t1"
    outcome = gateway.do("what is new", channel=channel)
    assert "the courier takes the answer: Hermes's reply mode" in outcome["note"]
    assert outcome["turn"]["hidden"] is True and outcome["channel"]["to"] == "courier"
    assert len(town.adapter.posts) == before
    said = gateway.sender.read(outcome["channel"]["id"])
    assert said.channel == channel and "answer to" in said.text
    gateway.sender.cancel(said.id)  # on this broker no courier is known, for others' sake
    gateway.sender.forget("courier")
    town.runner._busy_input_mode = "steer"  # type: ignore[attr-defined]
    id = gateway.send("and now", channel=channel)
    gateway.outcome(id, "dead")
    assert "reply mode" in gateway.sender.wait(id, 5).reason
