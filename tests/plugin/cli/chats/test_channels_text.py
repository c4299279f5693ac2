"""What `wakebus channels` says."""

from typing import Any

import pytest

from wakebus.adapters import registry
from wakebus.adapters.courier.status_file import Status
from wakebus.adapters.inspect.describe import describe
from wakebus.plugin.cli.chats.channels_text import (
    courier,
    details,
    missing,
    page,
    painted,
    state_words,
    unpainted,
)

NOW = 1_764_288_000.0
ENV = {"FEISHU_APP_ID": "cli_a", "FEISHU_APP_SECRET": "hush", "FEISHU_HOME_CHANNEL": "oc_1"}


def facts(platform: str, **env: str) -> dict[str, Any]:
    """Describe a platform."""
    return describe(platform, env, registry.load)


def test_the_list() -> None:
    """ADP-22.1: what is set up first, with its settings and home; of the rest what is missing."""
    shown = page(
        [facts("dingtalk"), facts("feishu", **ENV)], "runs, pid 7", "/h/.env", NOW, unpainted
    )
    lines = shown.splitlines()
    assert lines[0] == "feishu      ready"
    assert lines[1] == "  set       FEISHU_APP_ID=cli_a, FEISHU_APP_SECRET=***"
    assert lines[2] == "  home      feishu:oc_1 (by FEISHU_HOME_CHANNEL)"
    assert (
        "dingtalk    not set up: set DINGTALK_CLIENT_ID and DINGTALK_CLIENT_SECRET,"
        " or DINGTALK_WEBHOOK_URL" in lines
    )
    assert "courier: runs, pid 7" in lines and "settings: /h/.env" in lines
    assert "wakebus channels check" in lines[-1]


def test_one_in_full() -> None:
    """ADP-22.1: also what is not set, the limits and how to change them, and what a key gives."""
    shown = details(facts("feishu", **ENV), "runs", "/h/.env", NOW, unpainted)
    for piece in (
        "not set   FEISHU_DOMAIN",
        "up to 20,000 bytes; a longer text is split",
        "5 in 1 s to one chat",
        "FEISHU_RATE_CHAT, FEISHU_RATE_APP, COUNT/SECONDS or off",
        "threads   yes: ?thread=ID",
        "safe for 1 h on some of its ways",
        "wakebus channels check asks the platform",
    ):
        assert piece in shown, shown
    shown = details(facts("console"), "runs", "/h/.env", NOW, unpainted)
    assert "as the platform allows" in shown and "set CONSOLE_HOME_CHANNEL" in shown
    assert "files     takes none" in shown and "no harmless call" in shown


def test_a_limit_that_refills() -> None:
    """ADP-6.23: a bucket in words, also with other numbers."""
    env = {"MATRIX_HOMESERVER": "https://example.org", "MATRIX_ACCESS_TOKEN": "hush"}
    shown = details(facts("matrix", **env), "runs", "/h/.env", NOW, unpainted)
    assert "10 at once, then one in 5 s, in all" in shown
    shown = page([facts("matrix", **env, MATRIX_RATE_APP="4/2")], "runs", "/h", NOW, unpainted)
    assert "4 at once, then one in 0.5 s, in all" in shown


def test_what_only_this_process_has() -> None:
    """ADP-22.1: a variable that the courier, started elsewhere, may not have."""
    one = facts("feishu", **ENV) | {"inherited": ["FEISHU_APP_ID"]}
    shown = page([one], "runs", "/h/.env", NOW, unpainted)
    assert "the courier may not have: FEISHU_APP_ID\n" in shown


def test_what_is_wrong() -> None:
    """ADP-22.1: the adapter's words, with the real path of `.env`; a broken home as well."""
    one = facts("feishu", FEISHU_APP_ID="cli_a", FEISHU_HOME_CHANNEL="feishu:")
    shown = page([one], "runs", "/h/.env", NOW, unpainted)
    assert shown.startswith("feishu      wrong: FEISHU_APP_SECRET is not set")
    assert "$HERMES_HOME" not in shown and "FEISHU_HOME_CHANNEL names no chat" in shown
    broken = {"platform": "x", "state": "wrong", "problem": "cannot be loaded", "missing": []}
    assert details(broken, "-", "-", NOW, unpainted).startswith("x           wrong: cannot be")


def test_colour() -> None:
    """ADP-22.1: states have one, and nothing that others wrote can bring its own."""
    one = facts("feishu", **ENV | {"FEISHU_APP_ID": "a\x1b[31mb\u202e"})
    shown = page([one], "run\x1b[2Js", "/h/.env", NOW, painted)
    assert shown.startswith("feishu      \x1b[32mready\x1b[0m\n")
    assert "\x1b[31m" not in shown and "\x1b[2J" not in shown and "\u202e" not in shown
    assert "\x1b" not in page([one], "runs", "/h/.env", NOW, unpainted)


def test_missing() -> None:
    """Groups, each of which is enough."""
    assert (
        missing({"missing": [["A"], ["B", "C"], ["D", "E", "F"]]}) == "A, or B and C, or D, E and F"
    )


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (None, "none has run here"),
        (Status(7, NOW - 180, NOW, True, {}), "runs, pid 7, for 3 min"),
        (Status(7, NOW - 180, NOW - 60, False, {}), "does not run (pid 7 is gone; it last wrote 1"),
    ],
)
def test_the_courier(status: Status | None, words: str) -> None:
    """ADP-22.2: whether one runs, and how to start it."""
    said = courier(status, NOW)
    assert said.startswith(words)
    assert (status is not None and status.alive) or "hermes-busd" in said


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (None, ""),
        ({}, ""),
        ({"circuit": "closed", "sent": 0, "last_error": ""}, ""),
        ({"circuit": "closed", "sent": 3, "not_sent": 1}, "3 sent; 1 not sent"),
        ({"uncertain": 2}, "2 uncertain (which: wakebus inbox courier --uncertain)"),
        (
            {"circuit": "open", "until": NOW + 12, "why": "refused", "held": 4},
            "circuit open for 12 s: refused; 4 held",
        ),
        ({"circuit": "probing", "until": None}, "circuit probing"),
        ({"throttled_until": NOW + 600}, "throttled for 10 min"),
        ({"throttled_until": NOW - 1, "last_error": "45009"}, "last error: 45009"),
        ({"last_error": "45009", "last_error_at": NOW - 720}, "last error: 45009 (12 min ago)"),
        ({"last_error": "45009", "last_error_at": "x"}, "last error: 45009"),
        ({"last_error": "45009", "last_error_at": NOW + 9}, "last error: 45009"),
        ({"chats_held": 1}, "one chat does not answer"),
        ({"chats_held": 3, "circuit": "closed"}, "3 chats do not answer"),
        ({"chats_held": "x"}, ""),
        ({"until": "x", "throttled_until": [], "sent": "many", "circuit": "closed"}, ""),
    ],
)
def test_the_state(state: dict[str, Any] | None, words: str) -> None:
    """ADP-22.2: circuit, throttle, counts and the last error; what is no such thing is nothing."""
    assert state_words(state, NOW) == words
