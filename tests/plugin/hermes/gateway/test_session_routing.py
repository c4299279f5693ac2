"""Which session a message belongs to; or not now; or never."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fakes.gateway import Granted
from fakes.hermes import Platform, Town, dm, group
from fakes.host import deliver
from wakebus.broker import Delivery, Later, Refusal
from wakebus.broker.protocol.message import Message
from wakebus.plugin.hermes.gateway.conversations import Conversations
from wakebus.plugin.hermes.gateway.session_routing import SessionRouter
from wakebus.plugin.hermes.host_api.choose import gateway_api
from wakebus.plugin.rules.match import Plan, plan
from wakebus.plugin.rules.model import Rule, Rules

Place = Callable[..., Any]
DM1 = "mattermost:dm1"
DM1_KEY = "agent:main:mattermost:dm:dm1"


def unreachable(delivery: Delivery, channel: str) -> str:
    """Return why the courier cannot take an answer: it knows only one thread."""
    return "" if channel.endswith("=t1") else "no such thread"


@pytest.fixture
def place(town: Town) -> Place:
    """Return a function that routes a message: `place(channel, session=…, rule fields)`."""

    def place(
        channel: str = "", session: str | None = None, granted: bool = True, **rule: Any
    ) -> Any:
        body = {"type": "ci", "text": "x", **({"channel": channel} if channel else {})}
        message = Message("m1", 1.0, "alpha", "gw", body, session)
        rules = Rules(callbacks=(Rule(**{"number": 1, "context": True, **rule}),))
        conversations = Conversations(town.hermes, {})
        router = SessionRouter(conversations, Granted(granted), lambda id: "", unreachable)
        return router.route(deliver(message), plan(rules, message, "gateway"))

    return place


def placed(found: Any) -> Plan:
    """The plan of what was placed."""
    assert isinstance(found, tuple), found
    assert isinstance(found[0], Plan)
    return found[0]


def refused(found: Any) -> str:
    """Why it never can be."""
    assert isinstance(found, Refusal), found
    return found.reason


def later(found: Any) -> str:
    """Why it cannot be now."""
    assert isinstance(found, Later), found
    return found.reason


def test_a_named_session_is_exact(town: Town, place: Place) -> None:
    """HERMES-3.2: that one, or refused with the next step; never another."""
    town.runner.session_store.put(dm())
    assert placed(place(session=DM1_KEY)).session == DM1_KEY
    assert placed(place(DM1, session=DM1_KEY)).session == DM1_KEY
    assert "no such session" in refused(place(DM1, session=DM1_KEY + "x"))
    assert "no such session" in refused(place(session="x", wake="next_turn"))


def test_a_session_of_one_chat_with_the_channel_of_another(town: Town, place: Place) -> None:
    """HERMES-3.12: refused, naming both; not where no chat is to have the answer, or no turn is."""
    town.runner.session_store.put(dm())
    set_home(town, Platform.MATTERMOST, "home1")
    for channel, rule in (("mattermost:grp1", {}), ("mattermost", {}), ("", {"reply": "home"})):
        why = refused(place(channel, session=DM1_KEY, **rule))
        assert "is in mattermost:dm1" in why and "name one of the two" in why
    assert "no platform 'slack'" in refused(place("slack:C1", session=DM1_KEY))
    assert placed(place("mattermost:grp1", session=DM1_KEY, reply="sender")).session == DM1_KEY
    assert placed(place("mattermost:grp1", session=DM1_KEY, wake="next_turn")).session == DM1_KEY
    thread = town.runner.session_store.put(group(thread_id="t1")).session_key
    assert placed(place("mattermost:grp1", session=thread)).session == thread
    assert "name one of the two" in refused(place("mattermost:grp1?thread=t2", session=thread))


def test_a_thread_that_hermes_would_leave(town: Town, place: Place) -> None:
    """HERMES-3.12: a turn only where the courier may take its answer, and Hermes hides it."""
    for thread in ("t1", "t2"):
        town.runner.session_store.put(group(thread_id=thread))
    assert placed(place("mattermost:grp1?thread=t2")).note == ""
    town.adapter._reply_mode = "off"
    assert "the courier takes" in placed(place("mattermost:grp1?thread=t1")).note
    why = refused(place("mattermost:grp1?thread=t2"))
    assert "reply mode" in why and "by the courier: no such thread" in why
    assert placed(place("mattermost:grp1?thread=t2", reply="sender")).note == ""
    town.runner._busy_input_mode = "steer"  # type: ignore[attr-defined]
    assert "reply mode" in refused(place("mattermost:grp1?thread=t1"))


def test_a_named_session_of_who_may_no_longer(town: Town, place: Place) -> None:
    """HERMES-3.2: authorization is asked for it too."""
    town.runner.session_store.put(dm(user="gone"))
    assert "gone, who may not talk to this agent" in refused(place(session=DM1_KEY))


def test_a_named_session_whose_key_has_changed(town: Town, place: Place) -> None:
    """HERMES-3.2: with other settings its chat leads to another session."""
    entry = town.runner.session_store.put(dm())
    entry.session_key = "agent:old:mattermost:dm:dm1"
    assert "no longer where its chat leads" in refused(place(session=entry.session_key))


def test_nobody_has_written_there(town: Town, place: Place) -> None:
    """HERMES-3.2: refused, with what to do; with the threads of that chat, if there are any."""
    assert "nobody who may talk to this agent" in refused(place(DM1))
    town.runner.session_store.put(group(thread_id="t1"))
    assert "as mattermost:grp1?thread=t1" in refused(place("mattermost:grp1"))


def test_a_platform_that_is_not_here(town: Town, place: Place) -> None:
    """HERMES-3.2: refused, naming those that are, also for what only waits."""
    assert "it has: dingtalk, mattermost" in refused(place("slack:C1"))
    assert "it has: dingtalk, mattermost" in refused(place("slack:C1", wake="next_turn"))
    assert "is no platform" in refused(place("!:x"))


def test_a_gateway_that_starts_or_stops(town: Town, place: Place) -> None:
    """HERMES-3.9: what needs the chat comes again; what waits for a session does not need it."""
    town.runner.session_store.put(dm())
    for field, value, word in (("_running", False, "starting"), ("_draining", True, "stopping")):
        setattr(town.runner, field, value)
        assert word in later(place(DM1))
        assert word in later(place(DM1, context=False, print=True))
        assert placed(place(DM1, wake="next_turn")).session == DM1_KEY
        assert placed(place(DM1, granted=False)).wake == "next_turn"
        town.runner._running, town.runner._draining = True, False


def test_an_adapter_that_reconnects(town: Town, place: Place) -> None:
    """HERMES-3.9: comes again."""
    town.runner.session_store.put(dm())
    del town.runner.adapters[Platform.MATTERMOST]
    assert "mattermost is not connected" in later(place(DM1))
    assert "mattermost is not connected" in later(place(DM1, context=False, print=True))
    assert placed(place(DM1, wake="next_turn")).session == DM1_KEY


def test_prints_of_others(town: Town, place: Place) -> None:
    """HERMES-3.8: by the courier, or refused; a rule's command runs all the same."""
    for channel in ("feishu:oc_1", "console:x", ""):
        assert placed(place(channel, context=False, print=True)).prints == "channel"
    wrong = (("irc:C1", "no platform 'irc'; it has: "), ("!:x", "no platform"))
    for channel, why in (*wrong, ("mattermost", "/sethome")):
        assert why in refused(place(channel, context=False, print=True))
        assert placed(place(channel, context=False, print=True, command="true")).command
    town.runner._running = False
    assert "starting" in later(place("irc:C1", context=False, print=True))


def test_half_built(town: Town, place: Place) -> None:
    """HERMES-3.9: without a store nothing is placed, nothing is refused."""
    town.runner.session_store, town.runner._running = None, False  # type: ignore[assignment]
    assert later(place(DM1)) and later(place(DM1, wake="next_turn"))


def test_silent_is_the_inbox(town: Town, place: Place) -> None:
    """HERMES-3.3: it needs no session."""
    assert placed(place(session="unknown", wake="silent")).wake == "silent"


def set_home(town: Town, platform: Platform, chat: str) -> None:
    """gateway/config.py:421."""
    home = type("HomeChannel", (), {"chat_id": chat, "thread_id": None})
    town.runner.config.platforms[platform].home_channel = home


def notice(town: Town, channel: str, session: str | None = None, **rule: Any) -> Any:
    """Route what the broker tells of m0, which was sent from the session `DM1_KEY`."""
    body = {"type": "notice", "text": "x", "channel": channel}
    message = Message("n1", 1.0, "bus", "gw", body, session, "next_turn", reply_to="m0")
    rules = Rules(callbacks=(Rule(number=1, **rule),) if rule else ())
    sent = {"m0": DM1_KEY}
    router = SessionRouter(
        Conversations(town.hermes, {}), Granted(), lambda id: sent.get(id, ""), unreachable
    )
    return router.route(deliver(message), plan(rules, message, "gateway"))


@pytest.mark.parametrize("channel", ["telegram:1", "mattermost", "!:x"])
def test_a_notice_is_never_refused(town: Town, channel: str) -> None:
    """HERMES-3.11: for the session that sent what it tells of, else for the inbox and the log."""
    for session in (None, "of another endpoint"):
        for rule in ({"context": True}, {"context": True, "print": "always"}):
            found = placed(notice(town, channel, session, **rule))
            assert (found.wake, found.prints) == ("silent", "terminal"), (session, rule)
            assert found.note.startswith("kept: ")
    town.runner.session_store.put(dm())
    assert placed(notice(town, channel, "other", context=True)).session == DM1_KEY
    assert placed(notice(town, channel)).prints in ("channel", "terminal")
    here = placed(notice(town, "mattermost:nowhere", context=True))
    assert here.session == DM1_KEY and here.wake == "next_turn"


def test_reply_home(town: Town, place: Place) -> None:
    """HERMES-3.5: without a channel the one home channel there is; else refused, naming them."""
    assert "no platform has a home channel" in refused(place(reply="home"))
    set_home(town, Platform.MATTERMOST, "home1")
    assert placed(place(reply="home")).session == "agent:main:mattermost:channel:home1"
    town.runner.session_store.put(dm())
    assert placed(place(DM1, reply="home")).session == "agent:main:mattermost:channel:home1"
    assert placed(place(session=None, reply="home")).session.endswith(":home1")
    set_home(town, Platform.DINGTALK, "home2")
    assert "mattermost:home1, dingtalk:home2" in refused(place(reply="home"))


def test_a_bare_platform(town: Town, place: Place) -> None:
    """HERMES-3.5, peer failure 10: its home channel, as the platform says what it is."""
    assert "/sethome" in refused(place("mattermost"))
    set_home(town, Platform.MATTERMOST, "home1")
    town.adapter.types["home1"] = "dm"
    assert placed(place("mattermost")).session == "agent:main:mattermost:dm:home1"
    assert placed(place("mattermost:home1")).session == "agent:main:mattermost:dm:home1"
    assert placed(place("mattermost", wake="next_turn")).session == "mattermost:home1"
    town.adapter.types["home1"] = "nonsense"
    assert placed(place("mattermost")).session == "agent:main:mattermost:dm:home1"


def test_the_owners_own_session_can_be_named(town: Town, place: Place) -> None:
    """HERMES-3.5: what a turn in the home channel made, though nobody's authorization is there."""
    set_home(town, Platform.MATTERMOST, "home1")
    _, whose = place("mattermost")
    town.runner.session_store.put(whose.source)
    again, known = place(session=whose.key)
    assert again.session == whose.key and known.owner
    assert place("mattermost")[1].key == whose.key


def test_a_closed_home(town: Town, place: Place) -> None:
    """HERMES-3.2: the direct chat of who may no longer talk to the agent."""
    set_home(town, Platform.MATTERMOST, "dm1")
    town.runner.session_store.put(dm(user="gone"))
    assert "nobody who may talk" in refused(place("mattermost"))


@pytest.mark.parametrize(
    ("endpoint", "step"), [("work-gateway", "send it to work-gateway"), ("", "wakebus endpoints")]
)
def test_a_session_of_another_profile(town: Town, endpoint: str, step: str) -> None:
    """HERMES-3.16: it is another endpoint's, which is named; without one, where to look."""
    hermes = gateway_api(town.runner, None, "default", Path("/h"))
    message = Message("m1", 1.0, "alpha", "gw", {"type": "ci"}, "agent:work:mattermost:dm:dm1")
    rules = Rules(callbacks=(Rule(number=1, context=True),))
    neighbours = {"work": endpoint}
    router = SessionRouter(
        Conversations(hermes, {}), Granted(), lambda id: "", unreachable, neighbours.__getitem__
    )
    why = refused(router.route(deliver(message), plan(rules, message, "gateway")))
    assert "is of profile work" in why and step in why
