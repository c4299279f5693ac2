"""
Prints of a real gateway: what its chat does not have is not called done (HERMES-3).

In the first world no courier runs: what it would take is refused. In the second one it is set up
for Mattermost and for nothing else that needs a setting.
"""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from e2e_hermes.ntfy import TOPIC, Ntfy
from e2e_hermes.world import GATEWAY, World

RULES = """
callbacks:
  - match_type: ci
    context: true
  - match_type: note
    print: true
  - match_type: notice
    context: true
"""
ZWSP = "\u200b"
ROOM = "r" * 26  # a channel's id as Mattermost makes them: the courier takes no other


@pytest.fixture(scope="module")
def ntfy() -> Iterator[Ntfy]:
    """An ntfy server."""
    server = Ntfy()
    yield server
    server.close()


@pytest.fixture(scope="module")
def world(ntfy: Ntfy) -> Iterator[World]:
    """A world without a home channel, whose gateway has Mattermost and ntfy."""
    with closing(World(home=False)) as found:
        found.env |= {"NTFY_ALLOWED_USERS": TOPIC, "NTFY_TOPIC": TOPIC, "NTFY_SERVER_URL": ntfy.url}
        platforms = {**found.config["platforms"], "ntfy": ntfy.config}
        found.configure(platforms=platforms)
        found.rules(RULES)
        found.start_all()
        found.wait_registered()
        yield found


def send(world: World, text: str, channel: str, *words: str, type: str = "note") -> str:
    """Send by notify-hermes; return the message's id."""
    to = ("--to", GATEWAY, "--type", type, "--channel", channel)
    return str(world.sent(*to, *words, "--", text)["id"])


def printed(world: World, text: str, channel: str) -> dict[str, Any]:
    """Send a print that is handled; return what became of it."""
    told = world.handled(send(world, text, channel))
    assert told["state"] == "handled", told
    return dict(told["outcome"]["actions"][0])


def refused(world: World, text: str, channel: str, *words: str, type: str = "note") -> str:
    """Send what is refused; return why. Nothing of it is on the gateway's own terminal."""
    told = world.handled(send(world, text, channel, *words, type=type))
    assert told["state"] == "dead", told
    assert text not in world.gateway.output
    return str(told["reason"])


@pytest.mark.parametrize("status", [429, 503])
def test_what_surely_did_not_arrive_is_sent_again(world: World, status: int) -> None:
    """HERMES-3.8: `sent` in the end, and there once."""
    world.mattermost.fail_posts(2, status)
    told = printed(world, f"after {status}", "mattermost:town")
    assert told["result"] == "sent" and not world.mattermost.fault({}), told
    assert world.answers("town").count(f"after {status}") == 1


def test_a_server_that_refuses_connections(world: World) -> None:
    """HERMES-3.8: the print waits for it, and is there once it is back; nobody was told it was."""
    platform = world.mattermost
    platform.refuse()
    id = send(world, "through a closed door", "mattermost:town")
    world.wait(lambda: "Cannot connect" in world.gateway.log, "a try")
    assert world.traced(id)["state"] == "delivered"
    platform.accept()
    told = world.handled(id)
    assert told["outcome"]["actions"][0]["result"] == "sent", told
    assert world.answers("town").count("through a closed door") == 1
    world.wait(lambda: platform.connected, "a WebSocket")


def test_a_server_that_stays_away(world: World) -> None:
    """HERMES-3.8: a dead letter with both reasons, told to its sender; retried when it is back."""
    world.declare("asker")
    platform = world.mattermost
    platform.refuse()
    id = send(world, "knock knock", "mattermost:town", "--from", "asker")
    told = world.handled(id)
    assert told["state"] == "dead" and "Cannot connect" in told["reason"], told
    assert "by the courier: " in told["reason"] and "knock knock" not in world.gateway.output
    with world.client() as bus:
        assert bus.read([*bus.inbox("asker")][-1]["id"]).reply_to == id
    platform.accept()
    world.wait(lambda: platform.connected, "a WebSocket")
    assert world.wakebus("dead", "retry", id).status == 0
    world.answered("town", "knock knock")


def test_what_the_platform_refuses(world: World) -> None:
    """HERMES-3.8: a dead letter with its words, tried once."""
    world.mattermost.fail_posts(1, 403)
    assert "→ 403: " in refused(world, "forbidden", "mattermost:town")
    assert world.answers("town").count("forbidden") == 0


def test_what_is_in_doubt_is_listed(world: World) -> None:
    """HERMES-3.8: `wakebus inbox --uncertain` knows it, of this endpoint and of all."""
    world.mattermost.fail_posts(1, 500)
    id = send(world, "perhaps", "mattermost:town")
    again = ("--to", GATEWAY, "--id", id, "--type", "note", "--channel", "mattermost:town")
    done = world.notify(*again, "--wait", "60", "perhaps")
    assert done.status == 0 and "may have what it says or not" in done.out, done
    for words in ((GATEWAY,), ()):
        assert id in world.wakebus("inbox", *words, "--uncertain").out


def test_no_home_channel(world: World) -> None:
    """HERMES-3.5: refused, naming both ways."""
    why = refused(world, "for home", "mattermost")
    assert "/sethome" in why and "MATTERMOST_HOME_CHANNEL" in why


def test_another_topic(world: World, ntfy: Ntfy) -> None:
    """HERMES-3.12: in the topic that is named, not in the one that Hermes is set to."""
    ntfy.faults.append(429)
    told = printed(world, "for others", "ntfy:other-topic")
    assert (told["result"], told["to"]) == ("sent", "ntfy:other-topic"), told
    assert printed(world, "for us", f"ntfy:{TOPIC}")["result"] == "sent"
    assert ntfy.posts == [("other-topic", "for others"), (TOPIC, "for us")]


def test_a_thread_that_the_reply_mode_drops(world: World) -> None:
    """HERMES-3.12: no print is posted beside the thread, as Hermes would (its default)."""
    root = world.ask("town", "u1", "a root")
    channel = f"mattermost:town?thread={root.id}"
    assert "reply mode" in refused(world, "only in the thread", channel)


def test_a_session_of_one_chat_with_the_channel_of_another(world: World) -> None:
    """HERMES-3.12: refused, naming both chats; the model is not asked."""
    world.ask("dm1", "u1", "I am here")
    session = ("--session", "agent:main:mattermost:dm:dm1")
    why = refused(world, "SAY:where to", "mattermost:town", *session, type="ci")
    assert "mattermost:dm1" in why and "mattermost:town" in why
    assert not world.requests("where to")


def test_long_texts(world: World, ntfy: Ntfy) -> None:
    """HERMES-3.13: in parts that join to the text, in order; nothing is cut."""
    text = "\n\n".join(f"paragraph {n} {'x' * 700}" for n in range(12))
    told = printed(world, text, "mattermost:grp1")
    assert told["result"] == "sent" and told["parts"] == told["done"] == 3, told
    assert "".join(world.answers("grp1")) == text
    before = len(ntfy.posts)
    assert printed(world, "ж" * 3000, f"ntfy:{TOPIC}")["parts"] == 2
    assert "".join(text for _, text in ntfy.posts[before:]) == "ж" * 3000


def test_nobody_is_mentioned(world: World) -> None:
    """HERMES-3.14: what Mattermost would take for a mention is text."""
    assert printed(world, "@all and @u1, a@b.c", "mattermost:grp1")["result"] == "sent"
    assert world.answers("grp1")[-1] == f"@{ZWSP}all and @{ZWSP}u1, a@b.c"


def test_a_platform_that_nobody_has(world: World) -> None:
    """HERMES-3.8, HERMES-3.11: `telegram:1` is refused; who sent it is told, a gateway as well."""
    world.declare("teller")
    id = send(world, "hello", "telegram:1", "--from", "teller")
    told = world.handled(id)
    assert told["state"] == "dead" and "no telegram here" in told["reason"], told
    with world.client() as bus:
        (row,) = bus.inbox("teller")
        notice = bus.read(row["id"])
        assert notice.reply_to == id and "telegram" in notice.text
        body = {"text": "x", "type": "t", "channel": "telegram:1"}
        own = bus.send("teller", body, sender=GATEWAY, ttl_s=0.01).id

    def heard() -> list[dict[str, Any]]:
        return [one for one in world.related(own) if one["to"] == GATEWAY]

    world.wait(lambda: heard() and heard()[0]["state"] == "handled", "the notice")
    assert "kept: " in heard()[0]["outcome"]["note"]


def test_a_home_that_is_made_meanwhile(world: World) -> None:
    """HERMES-3.5: by `/sethome` in a chat; no restart is needed."""
    before = len(world.answers("dm2"))
    world.say("dm2", "u2", "/sethome")
    world.replied("dm2", before)
    assert printed(world, "welcome home", "mattermost")["to"] == "mattermost:dm2"
    assert world.answers("dm2").count("welcome home") == 1


# --- with a courier -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def carried() -> Iterator[World]:
    """A world with a courier, which has Mattermost as the gateway has."""
    with closing(World(services=True)) as found:
        found.mattermost.channels[ROOM] = "O"
        found.rules(RULES)
        found.start_all()
        found.wait_registered()
        found.wait_registered("courier")
        yield found


def carried_to(world: World, id: str) -> dict[str, Any]:
    """Return what became of the text that the courier was given because of a print."""
    told = world.handled(id)["outcome"]["actions"][0]
    assert (told["to"], told["result"]) == ("courier", "queued"), told
    return world.handled(told["id"])


def test_the_courier_after_the_adapter(carried: World) -> None:
    """HERMES-3.8: a platform that is down for longer is the courier's; it is there once."""
    platform = carried.mattermost
    platform.refuse()
    id = send(carried, "late but there", f"mattermost:{ROOM}")
    again = ("--to", GATEWAY, "--id", id, "--type", "note", "--channel", f"mattermost:{ROOM}")
    done = carried.notify(*again, "--wait", "60", "late but there")
    assert done.status == 0 and "queued for the courier, and not there yet" in done.out, done
    platform.accept()
    assert carried_to(carried, id)["outcome"]["channel"]["result"] == "sent"
    assert carried.answers(ROOM).count("late but there") == 1
    carried.wait(lambda: platform.connected, "a WebSocket")


def test_the_courier_in_a_thread(carried: World) -> None:
    """HERMES-3.12: print and answer are in the thread that Hermes's reply mode drops."""
    root = carried.ask(ROOM, "u1", "a root")
    channel = f"mattermost:{ROOM}?thread={root.id}"
    carried_to(carried, send(carried, "a print in the thread", channel))
    carried.ask(ROOM, "u1", "in the thread", root.id)
    told = carried.handled(send(carried, "SAY:an answer in it", channel, type="ci"))["outcome"]
    assert "the courier takes the answer" in told["note"] and told["turn"]["hidden"], told
    carried.handled(told["channel"]["id"])
    for text in ("a print in the thread", "an answer in it"):
        assert [carried.answered(ROOM, text).root] == [root.id]
        assert carried.answers(ROOM).count(text) == 1


def test_a_long_text_is_the_couriers(carried: World) -> None:
    """HERMES-3.13: which knows how much Mattermost takes in one."""
    text = "word " * 2000
    assert carried_to(carried, send(carried, text, f"mattermost:{ROOM}"))["state"] == "handled"
    assert carried.answers(ROOM)[-1].strip() == text.strip()


def test_a_platform_that_is_not_set_up(carried: World) -> None:
    """HERMES-3.8: refused before it is handed over, naming the setting; its sender is told."""
    carried.declare("teller")
    why = refused(carried, "hello", "telegram:1", "--from", "teller")
    assert "TELEGRAM_BOT_TOKEN" in why
    words = ("--to", GATEWAY, "--type", "note", "--channel", "telegram:1", "--wait", "60")
    done = carried.notify(*words, "hello again")
    assert done.status == 1 and "TELEGRAM_BOT_TOKEN" in done.err, done
    with carried.client() as bus:
        (row,) = bus.inbox("teller")
        assert "TELEGRAM_BOT_TOKEN" in bus.read(row["id"]).text


def test_a_text_that_dies_at_the_courier(carried: World) -> None:
    """PROTOCOL-6.12, HERMES-3.11: whose note it was is told, and the gateway, which keeps that."""
    carried.declare("asker")
    id = send(carried, "to nobody", "mattermost:@nobody", "--from", "asker")
    dead = carried_to(carried, id)
    assert dead["state"] == "dead", dead
    notices = {one["to"]: one for one in carried.related(id) if one["type"] == "notice"}
    assert set(notices) == {"asker", GATEWAY}
    with carried.client() as bus:
        told = bus.read(notices["asker"]["id"])
        assert told.reply_to == id and "mattermost:@nobody" in told.text
        assert bus.wait(notices[GATEWAY]["id"], 30).state == "handled"
