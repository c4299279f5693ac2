"""`wakebus broker …` is `hermes-busd …`."""

from fakes.desk import Desk


def test_both_names_do_the_same(own_desk: Desk) -> None:
    """Start, status, stop by either; 3 when stopped; the errors carry the name that was called."""
    assert own_desk.wakebus("broker", "status").status == 3
    assert own_desk.wakebus("broker", "start").status == 0
    found = own_desk.run("hermes-busd", "status", "--json").json
    assert own_desk.wakebus("broker", "status", "--json").json["pid"] == found["pid"]
    assert "broker stopped" in own_desk.wakebus("broker", "stop").out
    assert own_desk.run("hermes-busd", "status").status == 3
    assert own_desk.left() == []
    (own_desk.root / "bus" / "wakebus.toml").write_text("stale = 1\n")
    done = own_desk.wakebus("broker", "start")
    assert done.status == 1 and done.err.startswith("wakebus: ") and "stale_s" in done.err
    assert own_desk.wakebus("broker").status == 2


def test_status_is_a_verb(desk: Desk, name: str) -> None:
    """`wakebus status`: what `hermes-busd status` says, the next command for what is not good."""
    desk.sent("--to", name, "--from", "ci", "--queue", "x")
    done = desk.wakebus("status")
    assert done.status == 0
    assert f"AWAY:     {name}, 1 waiting: wakebus listen {name}, or start its Hermes" in done.out
    assert desk.wakebus("status", "--json").json["running"] is True
    assert name in desk.run("hermes-busd", "status").out


def test_status_of_a_stopped_broker(own_desk: Desk) -> None:
    """Exit 3, as hermes-busd says it."""
    done = own_desk.wakebus("status")
    assert done.status == 3 and "hermes-busd start" in done.out
