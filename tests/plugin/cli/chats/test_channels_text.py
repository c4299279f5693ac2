"""What `wakebus channels` says."""

from typing import Any

import pytest

from wakebus.adapters import registry
from wakebus.adapters.courier.status_file import Status
from wakebus.adapters.inspect.describe import describe
from wakebus.broker.system.text_table import text_table
from wakebus.plugin.cli.chats.channels_text import (
    COLUMNS,
    courier_words,
    platform_rows,
    state_words,
)

NOW = 1_764_288_000.0
ENV = {"FEISHU_APP_ID": "cli_a", "FEISHU_APP_SECRET": "hush", "FEISHU_HOME_CHANNEL": "oc_1"}


def facts(platform: str, **env: str) -> dict[str, Any]:
    """Describe a platform."""
    return describe(platform, env, registry.load)


def shown(*found: dict[str, Any], whole: bool = False) -> str:
    """Return the table as a pipe gets it."""
    return text_table(COLUMNS, platform_rows(found, NOW, whole=whole), None)


def test_the_list() -> None:
    """ADP-22.1: what is set up first, with its settings and home; of the rest what is missing."""
    lines = shown(facts("dingtalk"), facts("feishu", **ENV)).splitlines()
    assert lines[0] == "PLATFORM  STATE  WHAT   DETAILS"
    assert lines[1] == "feishu    ready  set    FEISHU_APP_ID=cli_a, FEISHU_APP_SECRET=***"
    assert lines[2] == "feishu    ready  home   feishu:oc_1 (by FEISHU_HOME_CHANNEL)"
    assert lines[-1] == (
        "dingtalk  unset  needs  set DINGTALK_CLIENT_ID and DINGTALK_CLIENT_SECRET,"
        " or DINGTALK_WEBHOOK_URL"
    )


def test_one_in_full() -> None:
    """ADP-22.1: also what is not set, the limits and how to change them, and what a key gives."""
    page = shown(facts("feishu", **ENV), whole=True)
    for piece in (
        "unset    FEISHU_DOMAIN",
        "up to 20,000 bytes; a longer text is split",
        "5 in 1 s to one chat",
        "FEISHU_RATE_CHAT, FEISHU_RATE_APP, COUNT/SECONDS or off",
        "threads  yes: ?thread=ID",
        "safe for 1 h on some of its ways",
        "wakebus channels check asks the platform",
    ):
        assert piece in page, page
    page = shown(facts("console"), whole=True)
    assert "as the platform allows" in page and "set CONSOLE_HOME_CHANNEL" in page
    assert "files    takes none" in page and "no harmless call" in page


def test_a_limit_that_refills() -> None:
    """ADP-6.23: a bucket in words, also with other numbers."""
    env = {"MATRIX_HOMESERVER": "https://example.org", "MATRIX_ACCESS_TOKEN": "hush"}
    page = shown(facts("matrix", **env), whole=True)
    assert "10 at once, then one in 5 s, in all" in page
    page = shown(facts("matrix", **env, MATRIX_RATE_APP="4/2"))
    assert "4 at once, then one in 0.5 s, in all" in page


def test_what_only_this_process_has() -> None:
    """ADP-22.1: a variable that the courier, started elsewhere, may not have."""
    page = shown(facts("feishu", **ENV) | {"inherited": ["FEISHU_APP_ID"]})
    assert "the courier may not have: FEISHU_APP_ID\n" in page


def test_what_is_wrong() -> None:
    """ADP-22.1: the adapter's words, with the real path of `.env`; a broken home as well."""
    page = shown(facts("feishu", FEISHU_APP_ID="cli_a", FEISHU_HOME_CHANNEL="feishu:"))
    assert page.splitlines()[1].startswith("feishu    wrong  fault  FEISHU_APP_SECRET is not set")
    assert "$HERMES_HOME" not in page and "FEISHU_HOME_CHANNEL names no chat" in page
    broken = {"platform": "x", "state": "wrong", "problem": "cannot be loaded", "missing": []}
    assert shown(broken, whole=True).splitlines()[1:] == [
        "x         wrong  fault  cannot be loaded"
    ]


def test_one_that_needs_nothing() -> None:
    """ADP-22.1: it has its row, though there is nothing to tell of it."""
    assert "console   ready  -      -" in shown(facts("console"), facts("dingtalk"))


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
    said = courier_words(status, NOW)
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
        (
            {
                "circuit": "open",
                "until": NOW + 12,
                "hosts": "a.example, b.example",
                "why": "refused",
            },
            "circuit open to a.example, b.example for 12 s: refused",
        ),
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
