"""What Hermes's files say of Weixin chats."""

import json
import logging
import os
from pathlib import Path

import pytest

from wakebus.adapters.base import Outgoing
from wakebus.adapters.platforms.weixin import Weixin
from wakebus.adapters.settings.environment import Environment
from wakebus.adapters.settings.weixin_accounts import MAX_FILE, WeixinAccounts

ACCOUNT = "5b1c-im-bot"
ENV = {"WEIXIN_ACCOUNT_ID": ACCOUNT, "WEIXIN_TOKEN": "t"}
USER = "o9cq8@im.wechat"


def contexts(folder: Path) -> Path:
    """Return the file of the context tokens, where Hermes writes it."""
    accounts = folder / "weixin" / "accounts"
    accounts.mkdir(parents=True, exist_ok=True)
    return accounts / f"{ACCOUNT}.context-tokens.json"


def test_context_tokens_reach_the_adapter(tmp_path: Path) -> None:
    """ADP-19.8: through the environment, as any setting; and no other way leads to them."""
    contexts(tmp_path).write_text(json.dumps({USER: "ctx-1"}))
    adapter = Weixin(Environment(ENV, tmp_path / ".env")())
    target = adapter.parse_target(USER, None)
    assert adapter.ways(target, Outgoing("hi", "k")) == ("context", "plain")
    body = json.loads(adapter.build_request(target, Outgoing("hi", "k", way="context")).body)
    assert body["msg"]["context_token"] == "ctx-1"


def test_a_new_token_is_seen(tmp_path: Path) -> None:
    """ADP-19.8: every message of a user brings a new one: the file is read again."""
    tokens = WeixinAccounts(tmp_path)
    assert tokens(ENV) == {}
    for number in range(3):
        # Renamed into place, as Hermes does: another inode, whatever the clock says.
        fresh = tmp_path / f"{number}"
        fresh.write_text(json.dumps({USER: f"ctx-{number}"}))
        fresh.replace(contexts(tmp_path))
        assert json.loads(tokens(ENV)["WEIXIN_CONTEXT_TOKENS"]) == {USER: f"ctx-{number}"}


def test_the_login(tmp_path: Path) -> None:
    """ADP-19.8: Hermes's own login counts where no WEIXIN_TOKEN is set, and only there."""
    login = contexts(tmp_path).with_name(f"{ACCOUNT}.json")
    login.write_text(json.dumps({"token": "t-2", "base_url": "https://sz.example", "user_id": "u"}))
    tokens = WeixinAccounts(tmp_path)
    found = {"WEIXIN_TOKEN": "t-2", "WEIXIN_BASE_URL": "https://sz.example"}
    assert tokens({"WEIXIN_ACCOUNT_ID": ACCOUNT}) == found
    assert tokens(ENV) == {}
    own = {"WEIXIN_ACCOUNT_ID": ACCOUNT, "WEIXIN_BASE_URL": "https://own.example"}
    assert tokens(own) == {"WEIXIN_TOKEN": "t-2"}


@pytest.mark.parametrize("account", ["", "../../etc", "a/b", ".hidden", "a" * 129, "a\0"])
def test_an_account_is_a_name(tmp_path: Path, account: str) -> None:
    """ADP-19.8: what could leave the folder is no account."""
    assert WeixinAccounts(tmp_path)({"WEIXIN_ACCOUNT_ID": account}) == {}


@pytest.mark.parametrize("text", [b"{", b"\xff", b"[" * 100_000, b" " * (MAX_FILE + 1)])
def test_a_damaged_file(tmp_path: Path, text: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """ADP-19.8: named once, never shown; what it said last holds."""
    tokens, file = WeixinAccounts(tmp_path), contexts(tmp_path)
    file.write_text(json.dumps({USER: "hush-ctx"}))
    good = tokens(ENV)
    fresh = tmp_path / "fresh"
    fresh.write_bytes(text)
    fresh.replace(file)
    with caplog.at_level(logging.WARNING):
        assert tokens(ENV) == tokens(ENV) == good
    assert caplog.text.count(file.name) == 1 and "hush" not in caplog.text


def test_a_file_that_others_may_write_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """ADP-6.34: it could name another server for the account's token."""
    file = contexts(tmp_path)
    file.write_text(json.dumps({USER: "theirs"}))
    file.chmod(0o666)
    with caplog.at_level(logging.WARNING):
        assert WeixinAccounts(tmp_path)(ENV) == {}
    assert f"chmod go-w {file}" in caplog.text and "theirs" not in caplog.text


def test_no_regular_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """ADP-19.8: a pipe that nobody writes does not hold the courier."""
    os.mkfifo(contexts(tmp_path))
    with caplog.at_level(logging.WARNING):
        assert WeixinAccounts(tmp_path)(ENV) == {}
    assert "not a file" in caplog.text


@pytest.mark.parametrize("found", [[], 7, None, {}])
def test_another_shape(tmp_path: Path, found: object) -> None:
    """ADP-19.8: JSON that is no such file says nothing."""
    contexts(tmp_path).write_text(json.dumps(found))
    contexts(tmp_path).with_name(f"{ACCOUNT}.json").write_text(json.dumps(found))
    assert WeixinAccounts(tmp_path)({"WEIXIN_ACCOUNT_ID": ACCOUNT}) == {}
