"""The server of `hermes --tui` and the desktop on the bus (HERMES-8), spoken to by its own wire."""

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import pytest

from e2e_hermes.conftest import MakeWorld
from e2e_hermes.tui import Desktop, Tui
from e2e_hermes.world import World
from fakes.broker import until

NAME = "hermes-bus-tui"
RULES = """
callbacks:
  - match_type: ci
    context: true
  - match_type: note
    context: true
    wake: next_turn
  - match_type: line
    print: always
"""
AGAIN = "work on it had started and was cut off"
reachable = pytest.mark.skipif(
    find_spec("tui_gateway.plugin_inject") is None, reason="0.19 lets no plugin start turns there"
)
MakeTui = Callable[[], Tui]


@pytest.fixture
def desk(make_world: MakeWorld) -> World:
    """A broker and no gateway; what is typed into a running turn waits (Hermes's `/busy queue`)."""
    world = make_world()
    world.configure(display={"busy_input_mode": "queue"})
    world.rules(RULES)
    world.start()
    world.declare(NAME)  # what is sent just before the first session is seen waits
    return world


@pytest.fixture
def make_tui(desk: World) -> Iterator[MakeTui]:
    """Return a maker of servers of the TUI, without a session."""
    made: list[Tui] = []

    def make() -> Tui:
        made.append(Tui(desk))
        return made[-1]

    yield make
    for one in made:
        one.close()


def send(desk: World, text: str, *words: str, type: str = "ci") -> str:
    """Send a message to the TUI; return its id."""
    return str(desk.sent("--to", NAME, "--type", type, *words, "--", text)["id"])


def turn(desk: World, id: str) -> dict[str, Any]:
    """Return the outcome of a message, once its turn has ended well."""
    found = desk.handled(id)
    assert found["state"] == "handled" and "error" not in found["outcome"]["turn"], found
    return dict(found["outcome"])


def refused(desk: World, id: str) -> str:
    """Return why a message was refused."""
    found = desk.handled(id)
    assert found["state"] == "dead", found
    return str(next(step["reason"] for step in found["steps"] if step["what"] == "refused"))


@reachable
def test_the_session_that_is_named(desk: World, make_tui: MakeTui) -> None:
    """
    HERMES-8.1, HERMES-8.2, HERMES-8.8, HERMES-8.9: on the bus with the first session; a turn in
    exactly the one that is named; without a name where a person last spoke, never in any other.
    """
    tui = make_tui()
    assert NAME not in desk.live()
    waits = desk.sent("--to", NAME, "--queue", "--type", "ci", "SAY:it waited")["id"]
    first, a = tui.open()
    assert turn(desk, waits)["turn"]["session"] == a
    second, b = tui.open()
    assert "one of: " in (why := refused(desk, send(desk, "whose"))) and a in why and b in why
    told = turn(desk, send(desk, "SAY:build seven is red", "--session", a))
    assert told["turn"]["session"] == a and told["terminal"]["result"] == "answered"
    until(lambda: tui.answers(first) == ["it waited", "build seven is red"], 30)
    assert tui.answers(second) == []
    source = f"**Source:** TUI (endpoint: {NAME}, session: {a})"
    assert source in desk.asked("SAY:it waited").last
    assert source not in desk.asked("SAY:build seven").last
    tui.say(second, "SAY:hello from the person")
    until(lambda: tui.answers(second), 60)
    assert turn(desk, send(desk, "SAY:no name"))["turn"]["session"] == b
    assert "no such session here: 'nobody'" in refused(desk, send(desk, "x", "--session", "nobody"))
    page = str(tui.call("slash.exec", session_id=first, command="/bus")["output"])
    assert f"endpoint: {NAME} (tui)" in page and f"session {a}: " in page and "TUI: on" in page


@reachable
def test_a_busy_session(desk: World, make_tui: MakeTui) -> None:
    """HERMES-8.3: after the person's turn and what they typed, in order; nothing is interrupted."""
    tui = make_tui()
    first, a = tui.open()
    second, b = tui.open()
    tui.say(first, "HOLD:slow the person's own")
    desk.wait(lambda: desk.model.running("HOLD:slow"), "the person's turn")
    ids = [send(desk, f"message {n}", "--session", a) for n in (1, 2)]
    desk.wait(lambda: desk.traced(ids[0])["state"] == "delivered", "the first is held")
    assert turn(desk, send(desk, "SAY:elsewhere", "--session", b))["turn"]["session"] == b
    tui.say(first, "typed meanwhile")
    assert desk.model.running("HOLD:slow") and not desk.requests("message 1")
    desk.model.release("slow")
    told = [turn(desk, id) for id in ids]
    assert told[0]["turn"]["queued_behind"]
    order = ("HOLD:slow", "typed meanwhile", "message 1", "message 2")
    requests = [desk.asked(text) for text in order]
    assert [one.at for one in requests] == sorted(one.at for one in requests)
    assert not any(one.aborted for one in requests) and "typed" not in requests[2].last
    assert not any("message" in answer for answer in tui.answers(second))


@reachable
@pytest.mark.parametrize("how", ["kill", "terminate", "close"])
def test_the_process_ends_in_a_turn(desk: World, make_tui: MakeTui, how: str) -> None:
    """HERMES-8.7: however it ends, the message comes again, labelled; the endpoint is away."""
    tui = make_tui()
    _, key = tui.open()
    id = send(desk, "HOLD:ours and only ours")
    desk.wait(lambda: desk.model.running("HOLD:ours"), "our turn")
    getattr(tui, how)()
    desk.wait_gone(NAME)
    assert desk.traced(id)["state"] in ("queued", "delivered"), desk.traced(id)
    desk.model.release("ours")
    make_tui().open()
    told = turn(desk, id)
    assert told["turn"]["session"] != key
    assert any(AGAIN in one.last for one in desk.requests("HOLD:ours"))


@reachable
def test_its_session_is_closed(desk: World, make_tui: MakeTui) -> None:
    """HERMES-8.1, HERMES-8.7: in a turn: refused, where it named it; the last one: away."""
    tui = make_tui()
    first, a = tui.open()
    second, _ = tui.open()
    id = send(desk, "HOLD:shut", "--session", a)
    desk.wait(lambda: desk.model.running("HOLD:shut"), "our turn")
    tui.call("session.close", session_id=first)
    desk.model.release("shut")
    assert f"no such session here: '{a}'" in refused(desk, id)
    tui.call("session.close", session_id=second)
    desk.wait_gone(NAME)
    waits = desk.sent("--to", NAME, "--type", "ci", "SAY:when you are back")["id"]
    assert desk.traced(waits)["state"] == "queued" and tui.alive
    _, key = tui.open()
    assert turn(desk, waits)["turn"]["session"] == key


@reachable
def test_a_person_stops_our_turn(desk: World, make_tui: MakeTui) -> None:
    """HERMES-8.7: it failed, and is not begun again; nor does a cancelled one go on."""
    tui = make_tui()
    first, _ = tui.open()
    id = send(desk, "HOLD:mine")
    desk.wait(lambda: desk.model.running("HOLD:mine"), "our turn")
    tui.call("session.interrupt", session_id=first)
    assert "the person at the session stopped it" in refused(desk, id)
    gone = send(desk, "HOLD:cancelled")
    desk.wait(lambda: desk.model.running("HOLD:cancelled"), "our turn")
    assert desk.wakebus("cancel", gone).status == 0
    desk.wait(lambda: not desk.model.running("HOLD:cancelled"), "it is ended")
    assert turn(desk, send(desk, "SAY:next"))["terminal"]["result"] == "answered"
    assert len(desk.requests("HOLD:mine")) == 1


@reachable
def test_a_person_writes_into_our_turn(desk: World, make_tui: MakeTui) -> None:
    """HERMES-8.9: the answer is theirs; who asked is told so, not the answer."""
    tui = make_tui()
    first, _ = tui.open()
    with desk.client() as bus:
        id = bus.send(NAME, "HOLD:asked", type="ci", asks=True).id
    desk.wait(lambda: desk.model.running("HOLD:asked"), "our turn")
    told = tui.call("session.redirect", session_id=first, text="SAY:for the person")
    assert told["status"] == "redirected", told
    desk.model.release("asked")
    outcome = turn(desk, id)
    assert outcome["answer"]["result"] == "not_sent" and outcome["answered"] is False, outcome
    until(lambda: tui.answers(first), 60)


@reachable
def test_without_a_turn(desk: World, make_tui: MakeTui) -> None:
    """HERMES-8.5, HERMES-8.6: a print is seen in its session; what waits is in its next turn."""
    tui = make_tui()
    first, a = tui.open()
    second, b = tui.open()
    id = send(desk, "look here", "--session", a, type="line")
    (done,) = desk.handled(id)["outcome"]["actions"]
    assert "error" not in done, done

    def shown(id: str) -> list[str]:
        return [str(one["payload"]["text"]) for one in tui.told("review.summary", id)]

    until(lambda: shown(first), 30)
    assert "look here" in shown(first)[0] and not shown(second)
    desk.handled(send(desk, "remember the milk", "--session", b, type="note"))
    tui.say(first, "what is new here")
    until(lambda: tui.answers(first), 60)
    tui.say(second, "what is new there")
    until(lambda: tui.answers(second), 60)
    assert "remember the milk" in desk.asked("what is new there")
    assert "remember the milk" not in desk.asked("what is new here")


@reachable
def test_without_the_grant(make_world: MakeWorld) -> None:
    """HERMES-8.4: no turn; it waits for the session's next one and names the line."""
    world = make_world(grant=False)
    world.rules(RULES)
    world.start()
    tui = Tui(world)
    try:
        first, _ = tui.open()
        world.wait_registered(NAME)
        told = world.handled(send(world, "build seven is red"))["outcome"]
        assert "allow_gateway_injection: true" in told["note"] and not world.requests()
        tui.say(first, "what is new")
        until(lambda: tui.answers(first), 60)
        assert "build seven is red" in world.asked("what is new")
    finally:
        tui.close()


@reachable
def test_the_desktop(desk: World) -> None:
    """HERMES-8.1: `hermes serve` takes nothing before a session is open; then it is the same."""
    waits = str(desk.sent("--to", NAME, "--queue", "--type", "ci", "SAY:it waited")["id"])
    desktop = Desktop(desk)
    try:
        assert NAME not in desk.live()
        first, key = desktop.connect().open(source="desktop")
        told = turn(desk, waits)
        assert told["turn"]["session"] == key and told["terminal"]["result"] == "answered"
        until(lambda: desktop.answers(first) == ["it waited"], 60)
        desktop.disconnect()
        desk.wait_gone(NAME)
        waits = send(desk, "SAY:nobody was there", "--session", key)
        desktop.connect().call("session.resume", session_id=key)
        assert turn(desk, waits)["turn"]["session"] == key
        id = send(desk, "HOLD:ours", "--session", key)
        desk.wait(lambda: desk.model.running("HOLD:ours"), "our turn")
        desktop.terminate()
        desk.wait_gone(NAME)
        assert desk.traced(id)["state"] == "queued", desk.traced(id)
    finally:
        desk.model.release("ours")
        desktop.close()


@reachable
def test_two_profiles_in_one_desktop(desk: World) -> None:
    """HERMES-2.16, HERMES-8.1: each is an endpoint of its own, of its own sessions."""
    home = desk.root / "profiles" / "work"
    home.mkdir(parents=True)
    for name in ("config.yaml", "bus-rules.yaml"):
        (home / name).write_text((desk.root / name).read_text())
        (home / name).chmod(0o600)
    desktop = Desktop(desk)
    try:
        first, _ = desktop.connect().open()
        second, key = desktop.open(profile="work")
        desk.wait_registered(NAME)
        desk.wait_registered("work-tui")
        assert "no such session here" in refused(desk, send(desk, "x", "--session", key))
        id = desk.sent("--to", "work-tui", "--type", "ci", "SAY:of work")["id"]
        assert turn(desk, id)["turn"]["session"] == key
        until(lambda: desktop.answers(second) == ["of work"], 60)
        assert desktop.answers(first) == []
    finally:
        desktop.close()


@reachable
def test_a_second_one(desk: World, make_tui: MakeTui) -> None:
    """HERMES-2.6: it has a name of its own."""
    make_tui().open()
    desk.wait_registered(NAME)
    _, key = make_tui().open()
    desk.wait_registered(f"{NAME}-2")
    id = desk.sent("--to", f"{NAME}-2", "--type", "ci", "SAY:second")["id"]
    assert turn(desk, id)["turn"]["session"] == key


@pytest.mark.skipif(find_spec("tui_gateway.plugin_inject") is not None, reason="0.22 has a way in")
def test_a_hermes_without_a_way_in(desk: World, make_tui: MakeTui) -> None:
    """HERMES-8.1: its TUI is no endpoint, and `/bus` in it says why."""
    tui = make_tui()
    first, _ = tui.open()
    tui.say(first, "SAY:hello")
    until(lambda: tui.answers(first) == ["hello"], 60)
    assert not [name for name in desk.live() if name.startswith("hermes-bus")]
    page = str(tui.call("command.dispatch", session_id=first, name="bus", arg="")["output"])
    assert "lets no plugin start turns in the TUI" in page
