"""
Two profiles of Hermes, each with a bot, on one bus (HERMES-2.16, HERMES-3.16).

In 0.22 one gateway serves both, in 0.19 each has its own; what is seen from outside is the same.
Both chat servers have the same chats, and the same people in them.
"""

import importlib
import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from e2e_hermes.profile import ONE_PROCESS, Profile, Profiles
from e2e_hermes.world import World

RULES = """
callbacks:
  - {{match_type: ci, context: true}}
  - {{match_type: ask, context: true, reply: sender}}
  - {{match_type: note, print: true, print_format: "{name} prints {{text}}"}}
"""
TURNS, ASKS, PRINTS = 20, 20, 160
ROOM = "r" * 26  # a channel's id as Mattermost makes them: the courier takes no other
CHATS = ("dm1", "dm2", "grp1")

served_together = pytest.mark.skipif(not ONE_PROCESS, reason="this Hermes has a process for each")


class Two:
    """`default` and `work`, and `quiet`, which has not enabled the plugin."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.default, self.work = (Profile(world, name) for name in ("default", "work"))
        self.quiet = Profile(world, "quiet", plugin=False)
        self.both = (self.default, self.work)
        for one in self.both:
            one.rules(RULES.format(name=one.name))
        found = (*self.both, self.quiet) if ONE_PROCESS else self.both
        self.gateways = Profiles(world, *found)

    def send(self, to: Profile, text: str, type: str = "note", **fields: object) -> str:
        """Send to a profile's gateway; return the message's id."""
        channel = str(fields.pop("channel", "mattermost:dm1"))
        with self.world.client() as bus:
            how = {"type": type, "channel": channel, "sender": "ci", **fields}
            return bus.send(to.endpoint, text, **how).id  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def two(_clean_environment: None) -> Iterator[Two]:
    """Both heard somebody in each chat."""
    with closing(World(services=True)) as world:
        found = Two(world)
        for one in found.both:
            one.mattermost.channels[ROOM] = "O"
        with closing(found.gateways):
            world.start()
            found.gateways.start()
            for one in found.both:
                for chat in CHATS:
                    one.say(chat, "u1", f"{one.name} begins in {chat}")
            for one in found.both:
                for chat in CHATS:
                    one.posted(f"answer to {one.name} begins in {chat}")
            yield found


def mixed(two: Two) -> list[str]:
    """Return what stands where it does not belong: texts of one in the chats of the other."""
    found = []
    for one in two.both:
        for other in (one_ for one_ in (*two.both, two.quiet) if one_ is not one):
            found += [f"{p.channel}: {p.text[:80]}" for p in other.posts(f"for {one.name} ")]
            found += [f"{p.channel}: {p.text[:80]}" for p in other.posts(f"{one.name} prints")]
    return found


def test_each_is_an_endpoint_of_its_own(two: Two) -> None:
    """HERMES-2.16: by its profile's name; one without the plugin is none."""
    live = {name for name in two.world.live() if name.endswith("-gateway")}
    assert live == {"hermes-bus-gateway", "work-gateway"}
    for one in two.both:
        (post,) = one.posts(f"answer to {one.name} begins in dm1")
        assert f"(endpoint: {one.endpoint}, channel: mattermost:dm1)" in post.text
        one.say("dm1", "u1", "/bus")
        one.posted(f"endpoint: {one.endpoint} (gateway)")
    assert not two.quiet.posts()


def test_200_messages_are_not_mixed(two: Two) -> None:
    """HERMES-3.16: turns, questions and prints, interleaved: own bot, own session, own answer."""
    kinds = ["ci"] * TURNS + ["ask"] * ASKS + ["note"] * PRINTS
    kinds = [kinds[(number * 7) % len(kinds)] for number in range(len(kinds))]
    jobs = [(kind, two.both[n % 2], CHATS[n // 2 % 3], n) for n, kind in enumerate(kinds)]
    assert Counter(kinds) == {"ci": TURNS, "ask": ASKS, "note": PRINTS}

    def do(job: tuple[str, Profile, str, int]) -> tuple[str, str]:
        kind, to, chat, number = job
        text = f"for {to.name} number {number} end"
        with two.world.client() as bus:
            how = {"type": kind, "channel": f"mattermost:{chat}", "sender": "ci", "asks": True}
            if kind == "note":
                how.pop("asks")
            return bus.send(to.endpoint, text, **how).id, text  # type: ignore[arg-type]

    with ThreadPoolExecutor(8) as pool:
        sent = list(pool.map(do, jobs))
    for (kind, to, chat, number), (id, text) in zip(jobs, sent, strict=True):
        with two.world.client() as bus:
            receipt = bus.wait(id, 170)
        assert receipt.state == "handled", (kind, to.name, receipt)
        told = receipt.outcome or {}
        if kind == "note":
            (action,) = told["actions"]
            assert action["result"] == "sent", told
            assert [p.channel for p in to.posts(f"{to.name} prints {text}")] == [chat], number
        else:
            user = "" if chat.startswith("dm") else "u1"
            assert told["turn"]["session"] == to.key(chat, user), told
            request = two.world.asked(text)
            assert any(f"{to.name} begins in {chat}" in said for said in request.users), number
            other = two.both[to is two.default]
            assert f"{other.name} begins" not in " ".join(request.users), number
            if kind == "ci":
                assert told["channel"]["result"] == "answered", told
    assert not mixed(two)
    for one in two.both:
        assert one.mattermost.bearers == {one.token}
    assert not two.quiet.mattermost.bearers


def test_each_has_its_own_home_channel(two: Two) -> None:
    """HERMES-3.5: also after /sethome in the other's chat, which Hermes keeps for all (0.22.2)."""
    before = len(two.work.posts())
    two.work.say("dm2", "u1", "/sethome")
    two.world.wait(lambda: len(two.work.posts()) > before, "its home is written")
    for one, home in ((two.default, "home"), (two.work, "dm2")):
        id = two.send(one, f"for {one.name} at home", channel="mattermost")
        assert two.world.handled(id)["state"] == "handled"
        assert one.posted(f"for {one.name} at home").channel == home
    assert not mixed(two)


def test_the_grant_is_each_ones_own(two: Two) -> None:
    """HERMES-3.6: what the one's owner does not allow, the other's may."""
    two.work.grant = False
    two.work.configure()
    try:
        id = two.send(two.work, "for work and not begun", type="ci", channel="mattermost:dm1")
        told = two.world.handled(id)["outcome"]
        assert "allow_gateway_injection" in told["note"] and str(two.work.home) in told["note"]
        id = two.send(two.default, "for default and begun", type="ci", channel="mattermost:dm1")
        assert two.world.handled(id)["outcome"]["channel"]["result"] == "answered"
        assert not two.world.requests("and not begun")
    finally:
        two.work.grant = True
        two.work.configure()
    two.work.say("dm1", "u1", "what did I miss")
    assert "for work and not begun" in two.world.asked("what did I miss")
    assert not mixed(two)


def test_a_session_of_the_other_one_is_refused(two: Two) -> None:
    """HERMES-3.16: and who has it is named."""
    id = two.send(two.default, "x", type="ci", session="agent:work:mattermost:dm:dm1")
    dead = two.world.traced(id) if two.world.handled(id) else {}
    assert dead["state"] == "dead"
    if ONE_PROCESS:
        assert "is of profile work" in dead["reason"] and "work-gateway" in dead["reason"]
        id = two.send(two.work, "x", type="ci", session="agent:main:mattermost:dm:dm1")
        reason = two.world.handled(id)["reason"]
        assert "is of profile default" in reason and "hermes-bus-gateway" in reason
    id = two.send(two.work, "for work by key", type="ci", session=two.work.key("dm1"))
    assert two.world.handled(id)["outcome"]["turn"]["session"] == two.work.key("dm1")


def test_tools_send_as_the_profile_that_calls(two: Two) -> None:
    """HERMES-5.3: under its own endpoint, and the answer comes back to its session."""
    with two.world.client() as bus:
        bus.declare("errands")
    for one in two.both:
        args = {"target": "errands", "type": "note", "text": f"from {one.name}"}
        one.say("dm2", "u1", f"CALL:bus_send {json.dumps(args)} by {one.name}")

    def sent() -> dict[str, str]:
        with two.world.client() as bus:
            return {row["text"]: row["from"] for row in bus.inbox("errands")}

    expected = {f"from {one.name}": one.endpoint for one in two.both}
    two.world.wait(lambda: sent() == expected, "both have sent")
    for one in two.both:
        one.posted("called: ")


def test_while_its_bot_is_away_the_others_is_not_borrowed(two: Two) -> None:
    """HERMES-3.16: neither the gateway's nor the courier's, which has the default profile's."""
    two.world.wait_registered("courier")
    channel = f"mattermost:{ROOM}"
    try:
        for one, count in ((two.default, 3), (two.work, 1000)):
            one.mattermost.fail_posts(count, 503)
        ours, theirs = (two.send(one, f"for {one.name}, ill", channel=channel) for one in two.both)
        two.world.wait(lambda: two.world.traced(theirs)["state"] == "dead", "it is given up", 120)
        reason = two.world.traced(theirs)["reason"]
        assert f"the courier has the bots of {two.world.root}" in reason
        told = two.world.handled(ours)["outcome"]["actions"][0]
        assert (told["to"], told["result"]) == ("courier", "queued"), told
        two.default.posted("for default, ill")
    finally:
        for one in two.both:
            one.mattermost.heal()
    assert not mixed(two)
    assert not two.default.posts("for work, ill")


def discover_again(two: Two, profile: Profile) -> None:
    """
    Have the gateway discover a profile's plugins anew, as `hermes plugins enable` does.

    Not by that command: in a profile 0.22.2 has it download a Python first.
    """
    socket = importlib.import_module("gateway.control_socket")
    answer = socket.query_gateway_control(
        two.world.root, "reload-plugins", params={"home": str(profile.home)}, timeout=60.0
    )
    assert answer and answer["reloaded"], answer


@served_together
def test_it_is_enabled_and_disabled_while_the_gateway_runs(two: Two) -> None:
    """HERMES-2.17: discovered anew, too; the others notice nothing."""
    world, pid = two.world, two.world.gateway.pid
    with world.client() as bus:
        before = {row["name"]: row.get("epoch") for row in bus.list()}
    two.quiet.plugin = True
    two.quiet.configure()
    discover_again(two, two.quiet)
    world.wait_registered("quiet-gateway")
    for number in range(2):  # the second time it has left and come back
        id = two.send(two.quiet, f"for quiet {number} at last")
        assert world.handled(id)["state"] == "handled"
        two.quiet.posted(f"for quiet {number} at last")
        discover_again(two, two.quiet)
    two.quiet.plugin = False
    two.quiet.configure()
    discover_again(two, two.quiet)
    world.wait_gone("quiet-gateway")
    with world.client() as bus:
        after = {row["name"]: row.get("epoch") for row in bus.list()}
    assert all(after[one.endpoint] == before[one.endpoint] for one in two.both)
    assert two.world.gateway.pid == pid


def test_after_a_restart_all_is_as_before(two: Two) -> None:
    """HERMES-3.9: what waited arrives, in the sessions that were stored, by the same bots."""
    for gateway in two.gateways.gateways:
        gateway.stop()
    for one in two.both:
        two.world.wait_gone(one.endpoint)
    waiting = {one: two.send(one, f"for {one.name} after", type="ci") for one in two.both}
    prints = {one: two.send(one, f"for {one.name} printed") for one in two.both}
    two.gateways.start()
    for one in two.both:
        told = two.world.handled(waiting[one])["outcome"]
        assert told["turn"]["session"] == one.key("dm1"), told
        one.posted(f"for {one.name} after")
        assert two.world.handled(prints[one])["state"] == "handled"
        one.posted(f"{one.name} prints for {one.name} printed")
        request = two.world.asked(f"for {one.name} after")
        assert any(f"{one.name} begins in dm1" in text for text in request.users)
    assert not mixed(two)
    for one in two.both:
        assert one.mattermost.bearers == {one.token}
