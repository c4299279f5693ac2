"""People talk to Hermes, wakebus is not involved: what the other tests take for granted."""

from e2e_hermes.world import World


def test_a_person_gets_the_answer(world: World) -> None:
    """In the chat in which they asked, from one request of the model."""
    world.ask("dm1", "u1", "hello there")
    assert len(world.requests("hello there")) == 1
    assert not [text for text in world.answers("dm2") if "hello" in text]


def test_two_people_in_a_group_have_two_sessions(world: World) -> None:
    """Neither conversation holds the other's words."""
    world.ask("grp1", "u1", "first of u1")
    world.ask("grp1", "u2", "first of u2")
    world.ask("grp1", "u1", "second of u1")
    request = world.asked("second of u1")
    assert "first of u1" in request
    assert "first of u2" not in request


def test_a_thread_is_a_session_of_its_own(world: World) -> None:
    """What is said in it does not meet what was said in the channel."""
    root = world.say("town", "u1", "root of the thread")
    world.answered("town", "root of the thread")
    world.ask("town", "u1", "inside the thread", root=root.id)
    assert "root of the thread" not in world.asked("inside the thread")


def test_a_slow_turn(world: World) -> None:
    """The person waits, the answer comes when the test lets the model go on."""
    request = world.begin("dm2", "u2", "HOLD:slow think well")
    assert not request.ended
    assert not request.aborted
    world.model.release("slow")
    world.answered("dm2", "HOLD:slow think well")
    assert not request.aborted


def test_a_second_message_interrupts_the_first(world: World) -> None:
    """Hermes's own `busy_input_mode: interrupt`: the model sees the connection end."""
    request = world.begin("dm3", "u3", "HOLD:never the first")

    def aborted(seconds: float) -> None:
        world.wait(lambda: request.aborted, "the first request aborted", seconds)

    world.say_until(aborted, "dm3", "u3", "the second")
    world.model.release("never")  # Hermes merges what was interrupted into the next turn
    world.answered("dm3", "the second")


def test_titles_and_reviews_are_no_turns(world: World) -> None:
    """Hermes asks the model for a title by itself; the harness tells it apart."""
    world.ask("dm1", "u1", "a word that is asked once")
    world.wait(lambda: [r for r in world.model.requests if r.kind == "title"], "a title")
    assert len(world.requests("asked once")) == 1


def test_history_outlives_the_gateway(own_world: World) -> None:
    """Stopped and killed: the next request of that chat holds the earlier words."""
    own_world.ask("dm1", "u1", "remember blue")
    own_world.gateway.restart()
    own_world.ask("dm1", "u1", "after the stop")
    assert "remember blue" in own_world.asked("after the stop")
    own_world.gateway.kill()
    own_world.gateway.start()
    own_world.ask("dm1", "u1", "after the kill")
    assert "remember blue" in own_world.asked("after the kill")


def test_a_platform_with_faults(own_world: World) -> None:
    """A lost WebSocket and a refused connection end; the adapter comes back by itself."""
    platform = own_world.mattermost
    before = platform.connections
    platform.drop_websocket()
    own_world.wait(lambda: platform.connections > before and platform.connected, "a new WebSocket")
    own_world.ask("dm1", "u1", "after the drop")
    platform.refuse()
    own_world.wait(lambda: not platform.connected, "no WebSocket")
    platform.accept()
    own_world.wait(lambda: platform.connected, "a WebSocket again")
    own_world.ask("dm1", "u1", "after the refusal")


def test_posts_that_fail(own_world: World) -> None:
    """An answer that the platform does not take is lost for Hermes; the next one comes."""
    platform = own_world.mattermost
    platform.fail_posts(9)
    own_world.say("dm1", "u1", "SAY:lost")
    own_world.wait(lambda: platform.refused, "a refused post")
    platform.heal()
    own_world.ask("dm1", "u1", "the next")
