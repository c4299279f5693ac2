"""What hooks tell a plugin that sees nothing else of a gateway."""

from wakebus.plugin.hermes.isolated.told_by_hooks import MOST, ToldByHooks


def test_a_turn_begins_and_ends() -> None:
    """HERMES-9.3: a session has one at a time; those whose end is not told are bounded."""
    told = ToldByHooks()
    told.begin_turn("s1", "t1")
    told.begin_turn("s2", "t2")
    told.begin_turn("s1", "t3")
    assert {id: one.session_id for id, one in told.running().items()} == {"t2": "s2", "t3": "s1"}
    told.end_turn("t3")
    told.end_turn("never begun")
    assert list(told.running()) == ["t2"]
    for number in range(MOST):
        told.begin_turn(f"other{number}", f"turn{number}")
    assert len(told.running()) == MOST and "t2" not in told.running()


def test_whose_command_it_is() -> None:
    """HERMES-9.6: told apart from its call; the same from two sessions at once is nobody's."""
    told = ToldByHooks()
    told.give_command("k1", "send a x")
    told.give_command("k2", "send b x ")
    assert told.take_command("send b x") == "k2" and told.take_command("send b x") == ""
    told.give_command("k2", "send a x")
    assert told.take_command("send a x") == "" and told.take_command("send a x") == "k2"
