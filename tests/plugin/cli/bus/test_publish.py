"""`wakebus publish`: one event, confirmed."""

import pytest

from fakes.broker import until
from fakes.desk import Desk
from wakebus.broker import Event


def test_an_event_with_fields(desk: Desk, name: str) -> None:
    """From the command line, from standard input, or none; it arrives, once."""
    got: list[Event] = []
    with desk.client() as bus:
        bus.subscribe(f"{name}.**", got.append)
        done = desk.wakebus("publish", f"{name}.a", '{"ok": true, "text": "ä"}')
        assert done.status == 0 and done.out == f"published {name}.a\n", done
        done = desk.wakebus("publish", f"{name}.b", "-", "--json", stdin=b'{"n": 2}\n')
        assert done.status == 0 and done.json == {"topic": f"{name}.b"}
        assert desk.wakebus("publish", f"{name}.c").status == 0
        assert desk.wakebus("publish", f"{name}.d", "{}").status == 0
        until(lambda: len(got) == 4)
    assert got[0].envelope["ok"] is True and got[0].envelope["text"] == "ä"
    assert got[0].type == f"{name}.a" and got[0].src == name and got[1].envelope["n"] == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("a b",), "topic 'a b'"),
        (("a.*",), "a pattern"),
        (("a", "[1]"), "the event is JSON, but not an object {…}: a list"),
        (("a", "{no"), "the event is not JSON"),
        (("a", '{"x": NaN}'), "NaN is no JSON number"),
        (("a", '"text"'), "a string"),
        ((), "TOPIC"),
        (("a", "-"), "standard input is not JSON"),
    ],
)
def test_what_is_wrong_is_named(desk: Desk, words: tuple[str, ...], said: str) -> None:
    """Exit 2, nothing published, no traceback."""
    done = desk.wakebus("publish", *words)
    assert done.status == 2 and said in done.err and done.out == "", done
    assert "Traceback" not in done.err


def test_limits_and_the_brokers_own_topics(desk: Desk) -> None:
    """Too big is 2; `bus.**` is refused: 1; with --json one object."""
    big = b'{"x": "%s"}' % (b"x" * 70_000)
    done = desk.wakebus("publish", "a", "-", "--json", stdin=big)
    assert done.status == 2 and done.json["error"]["code"] == "too_big"
    done = desk.wakebus("publish", "bus.message.dead")
    assert done.status == 1 and "the broker's own" in done.err


def test_without_a_broker(own_desk: Desk) -> None:
    """Exit 1 and how to start it."""
    done = own_desk.wakebus("publish", "a")
    assert done.status == 1 and "hermes-busd start" in done.err and done.out == ""
