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
