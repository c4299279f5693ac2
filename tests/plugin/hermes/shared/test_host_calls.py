"""Calls of what a host may not have."""

from types import SimpleNamespace

from wakebus.plugin.hermes.shared.host_calls import ask_host


def test_a_host_is_asked_for_what_it_has() -> None:
    """No host yet, another kind of host, and the one that answers."""
    host = SimpleNamespace(channel=lambda: "feishu:oc_1", name="no method")
    assert ask_host(host, "channel") == "feishu:oc_1"
    assert ask_host(host, "name") is ask_host(host, "may_show", "s") is ask_host(None, "x") is None
