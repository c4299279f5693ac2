"""The stand-in for the model, seen through Hermes: tools, errors, slow answers."""

import json

from e2e_hermes.world import World


def test_a_tool_call(world: World) -> None:
    """`CALL:tool {…}` runs Hermes's tool; its result comes back and the text ends the turn."""
    note = world.root / "note.txt"
    note.write_text("see you at noon")
    world.begin("dm1", "u1", f"CALL:read_file {json.dumps({'path': str(note)})}")
    world.answered("dm1", "called: ")
    after = next(r for r in world.model.requests if r.kind == "tool")
    assert "see you at noon" in after.results[0]


def test_an_ill_model(world: World) -> None:
    """One 500 is tried again by Hermes; the person sees the answer."""
    world.model.fail(1)
    world.ask("dm2", "u1", "ill once")
    assert len(world.requests("ill once")) == 2


def test_a_slow_answer_and_exact_words(world: World) -> None:
    """`SLOW:0.5` and `SAY:` in one message."""
    world.begin("dm3", "u1", "SLOW:0.5\nSAY:exactly this")
    assert world.answered("dm3", "exactly this").text == "exactly this"


def test_a_message_on_the_bus(world: World) -> None:
    """The real `notify-hermes` and the broker of this world."""
    world.declare("nobody-yet")
    receipt = world.sent("--to", "nobody-yet", "--from", "ci", "hello")
    assert receipt["state"] == "queued"
    assert world.traced(receipt["id"])["from"] == "ci"
