"""`wakebus channels`: what is set up for chats, and whether platforms take it."""

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from fakes.desk import Desk
from fakes.in_process import InProcess
from fakes.platform import Platform
from fakes.terminal import in_terminal
from wakebus.adapters import registry
from wakebus.adapters.inspect.credential_check import CredentialCheck
from wakebus.plugin.cli.chats import channels


@pytest.fixture(scope="module")
def platform() -> Iterator[Platform]:
    """All platforms on loopback."""
    found = Platform()
    yield found
    found.close()


@pytest.fixture
def desk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> InProcess:
    """A desk without a broker."""
    return InProcess(tmp_path, monkeypatch, capsys)


def settings(desk: InProcess | Desk, **values: str) -> None:
    """Write `.env`."""
    (desk.root / ".env").write_text("".join(f"{k}={v}\n" for k, v in values.items()))


HUSH = "hush-7f3a-hush"
FEISHU = {"FEISHU_APP_ID": "cli_a", "FEISHU_APP_SECRET": HUSH}


def test_the_list(desk: InProcess) -> None:
    """ADP-22.1: every adapter, without a broker, colour or a secret; nothing is made."""
    settings(desk, **FEISHU, FEISHU_HOME_CHANNEL="oc_1")
    done = desk.wakebus("channels")
    assert done.status == 0 and not done.err, done
    head, *lines = done.out.splitlines()
    assert head.split() == ["PLATFORM", "STATE", "WHAT", "DETAILS"]
    assert {line.split()[0] for line in lines if line[:1].islower()} >= {*registry.known()}
    assert "FEISHU_APP_ID=cli_a, FEISHU_APP_SECRET=***" in done.out and HUSH not in done.out
    assert "courier: none has run here" in done.out and f"settings: {desk.root}/.env" in done.out
    assert "\x1b" not in done.out and [one.name for one in desk.root.iterdir()] == [".env"]


def test_on_a_terminal(own_desk: Desk, platform: Platform) -> None:
    """ADP-22.1, 22.3: in colour, and with a word while platforms are asked."""
    bad = {"FEISHU_APP_ID": "a\x1b[31mb\u202e"}
    settings(own_desk, **platform.settings("telegram"), **bad)
    shown = in_terminal(own_desk, "wakebus", "channels", env={"COLUMNS": "80"})
    assert "\x1b[32mready" in shown and "\x1b[31mb" not in shown and "\u202e" not in shown
    table = re.sub(r"\x1b\[\d*m", "", shown).split("\r\n\r\n")[0]
    assert len(table.splitlines()) > 13 and max(map(len, table.splitlines())) <= 80
    shown = in_terminal(own_desk, "wakebus", "channels", "check", "telegram")
    assert shown.index("asking telegram") < shown.index("ok: telegram: @busbot")
    assert "\x1b" not in in_terminal(own_desk, "wakebus", "channels", env={"NO_COLOR": "1"})


def test_as_a_process(own_desk: Desk) -> None:
    """ADP-22.1: without a broker; what is asked makes nothing."""
    done = own_desk.wakebus("channels", "--json")
    assert done.status == 0 and not done.err and len(done.json["channels"]) >= 3
    assert list(own_desk.root.iterdir()) == []


def test_as_json(desk: InProcess) -> None:
    """ADP-22.1: the same as data; home channels of Hermes's config.yaml as well."""
    settings(desk, **FEISHU)
    (desk.root / "config.yaml").write_text(
        "platforms:\n  feishu:\n    home_channel: {platform: feishu, chat_id: oc_9}\n"
    )
    found = desk.wakebus("channels", "--json", "feishu").json
    (one,) = found["channels"]
    assert found["courier"] is None and one["state"] == "ready" and one["now"] is None
    key = "platforms.feishu.home_channel in config.yaml"
    assert one["home"] == {"channel": "feishu:oc_9", "from": key}
    found = desk.wakebus("channels", "--json").json
    assert [one["platform"] for one in found["channels"]] == registry.known()


def test_a_broken_config(desk: InProcess) -> None:
    """ADP-7.7: its place is named, in the list and by send; the rest is shown."""
    (desk.root / "config.yaml").write_text(f"a: 1\nb: !!bool {HUSH}\n")
    for words in (("channels", "feishu"), ("send", "feishu", "x")):
        done = desk.wakebus(*words)
        assert f"{desk.root}/config.yaml:2: not YAML" in done.both and HUSH not in done.both
    (desk.root / "config.yaml").write_text("a: [\nb: }\n")
    done = desk.wakebus("channels", "feishu")
    assert done.status == 0 and f"{desk.root}/config.yaml:2: not YAML" in done.out
    done = desk.wakebus("send", "feishu", "x")
    assert done.status == 1 and f"{desk.root}/config.yaml:2: not YAML" in done.err
    assert f"in {desk.root}/.env" in done.err and "Traceback" not in done.err


@pytest.mark.parametrize(
    "words",
    [
        ("channels",),
        ("channels", "check"),
        ("settings", "list"),
        ("settings", "check"),
        ("send", "feishu:oc_1", "x"),
    ],
    ids=" ".join,
)
def test_an_env_that_others_may_write(desk: InProcess, words: tuple[str, ...]) -> None:
    """ADP-6.34: every command that reads it names it, with the way out."""
    settings(desk, **FEISHU)
    (file := desk.root / ".env").chmod(0o666)
    done = desk.wakebus(*words)
    why = f"{file} is not used: others may write it (mode 0666); chmod go-w {file}"
    assert done.status == 1 and why in done.err and HUSH not in done.both


def test_one_platform(desk: InProcess) -> None:
    """ADP-22.1: all about it; an unknown one has near names."""
    done = desk.wakebus("channels", "dingtalk")
    assert done.status == 0 and "unset  needs    set DINGTALK_CLIENT_ID" in done.out
    assert "other numbers: DINGTALK_RATE_CHAT" in done.out
    done = desk.wakebus("channels", "fesihu", "--json")
    assert done.status == 1 and "did you mean feishu?" in done.json["error"]["text"]


def test_what_the_courier_may_not_have(desk: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """ADP-22.1: `.env` is read by both; what was exported here may be missing there."""
    settings(desk, **FEISHU)
    assert desk.wakebus("channels", "feishu", "--json").json["channels"][0]["inherited"] == []
    monkeypatch.setenv("FEISHU_DOMAIN", "lark")
    found = desk.wakebus("channels", "feishu", "--json").json
    assert found["channels"][0]["inherited"] == ["FEISHU_DOMAIN"]
    assert "may not have: FEISHU_DOMAIN" in desk.wakebus("channels").out


@pytest.mark.parametrize("words", [("feishu", "telegram"), ("check", "a", "b"), ("--jsn",)])
def test_usage(desk: InProcess, words: tuple[str, ...]) -> None:
    """ADP-22.1: 2 for what is no such command."""
    assert desk.wakebus("channels", *words).status == 2


def state(desk: InProcess, pid: int, started: float, **platforms: object) -> None:
    """Write what a courier writes."""
    (desk.root / "bus").mkdir()
    held = {"pid": pid, "started": started, "at": started + 1, "platforms": platforms}
    (desk.root / "bus" / "courier.json").write_text(json.dumps(held))


def test_the_couriers_state(desk: InProcess) -> None:
    """ADP-22.2: what it is doing at each platform, while it runs."""
    until = time.time() + 3000
    feishu = {"circuit": "open", "until": until, "why": "no connection", "sent": 2, "held": 1}
    state(desk, os.getpid(), psutil.Process().create_time() + 0.5, feishu=feishu)
    settings(desk, **FEISHU)
    done = desk.wakebus("channels", "feishu")
    assert f"courier: runs, pid {os.getpid()}" in done.out
    assert "circuit open for" in done.out and "no connection; 2 sent; 1 held" in done.out
    found = desk.wakebus("channels", "feishu", "--json").json
    assert found["channels"][0]["now"] == feishu and found["courier"]["alive"] is True


def test_a_courier_of_another_home(desk: InProcess) -> None:
    """ADP-6.33, ADP-22.2: whose settings it reads, where it is not this `.env`."""
    state(desk, os.getpid(), psutil.Process().create_time() + 0.5)
    file = desk.root / "bus" / "courier.json"
    held = json.loads(file.read_text())
    says = f"settings: {desk.root}/.env; the courier reads /other/.env, not this one"
    for settings, said in ((str(desk.root / ".env"), False), ("/other/.env", True)):
        file.write_text(json.dumps(held | {"settings": settings}))
        for words in ((), ("console",)):
            assert (says in desk.wakebus("channels", *words).out) is said
        assert desk.wakebus("channels", "--json").json["courier"]["settings"] == settings
        assert ("the courier reads" in desk.wakebus("channels", "check", "console").err) is said


def test_a_dead_couriers_state(desk: InProcess) -> None:
    """ADP-22.2: told as such; what it did is not shown as if it still did."""
    state(desk, 2**22 - 3, 1.0, console={"circuit": "open", "until": time.time() + 3000})
    done = desk.wakebus("channels", "console")
    assert "courier: does not run" in done.out and "circuit" not in done.out


def test_check_all(desk: InProcess, platform: Platform) -> None:
    """ADP-22.3: what is set up is asked; exit 0 while none fails; no text goes anywhere."""
    settings(desk, **platform.settings("telegram", "feishu", "webhook"))
    done = desk.wakebus("channels", "check")
    assert done.status == 0 and not done.err, done
    lines = sorted(done.out.splitlines())
    assert lines == [
        "ok: feishu: the platform gave an access token",
        "ok: telegram: @busbot",
        "skipped: console: cannot be checked: this platform offers no harmless call",
        "skipped: webhook: cannot be checked: this platform offers no harmless call",
    ]
    assert platform.messages == []


def test_a_check_that_fails(desk: InProcess, platform: Platform) -> None:
    """ADP-22.3: exit 1, with the platform's words and without the credential; the others go on."""
    settings(desk, **platform.settings("telegram", "slack") | {"SLACK_BOT_TOKEN": "xoxb-9-9-wrong"})
    done = desk.wakebus("channels", "check", "--json")
    found = {one["platform"]: one for one in done.json["checks"]}
    assert done.status == 1 and found["telegram"]["result"] == "ok"
    assert found["slack"]["result"] == "failed" and "invalid_auth" in found["slack"]["text"]
    assert "xoxb-9-9-wrong" not in done.both
    assert desk.wakebus("channels", "check", "telegram").out == "ok: telegram: @busbot\n"
    assert desk.wakebus("channels", "check", "--json", "slack").status == 1


# A credential that has the right shape, and is another one.
WRONG = {
    "feishu": {"FEISHU_APP_SECRET": "other-7f3a"},
    "dingtalk": {"DINGTALK_CLIENT_SECRET": "other-7f3a"},
    "wecom": {"WECOM_CALLBACK_CORP_SECRET": "other-7f3a"},
    "telegram": {"TELEGRAM_BOT_TOKEN": "123456789:" + "other-7f3a" * 4},
    "slack": {"SLACK_BOT_TOKEN": "xoxb-1-2-other-7f3a"},
    "discord": {"DISCORD_BOT_TOKEN": "MTIz.other.7f3a"},
    "mattermost": {"MATTERMOST_TOKEN": "other-7f3a"},
    "matrix": {"MATRIX_ACCESS_TOKEN": "other-7f3a"},
    "ntfy": {"NTFY_TOKEN": "tk_" + "other7f3a" * 3},
}


@pytest.mark.parametrize("name", WRONG)
def test_the_check_of_each_platform(desk: InProcess, platform: Platform, name: str) -> None:
    """ADP-22.3: ok for the right credential; another one fails, and is not shown."""
    right = platform.settings(name)
    settings(desk, **right)
    assert desk.wakebus("channels", "check", name).out.startswith(f"ok: {name}: ")
    settings(desk, **(right | WRONG[name]))
    done = desk.wakebus("channels", "check", name)
    assert done.status == 1 and done.out.startswith(f"failed: {name}: "), done
    assert not [value for value in WRONG[name].values() if value in done.both]


def test_the_check_of_another_agent(desk: InProcess, platform: Platform) -> None:
    """ADP-22.3, 18.9: WeCom's secret is right, and the AgentId is another app's."""
    other = {"WECOM_CALLBACK_AGENT_ID": "1000003", "WECOM_AGENT_ID": "1000003"}
    settings(desk, **(platform.settings("wecom") | other))
    done = desk.wakebus("channels", "check", "wecom")
    assert done.status == 1 and "WECOM_CALLBACK_AGENT_ID" in done.out, done


def test_a_check_of_what_is_not_set_up(desk: InProcess) -> None:
    """ADP-22.3: exit 1 with the variables to set and the real file; near names for unknown ones."""
    done = desk.wakebus("channels", "check", "telegram")
    assert done.status == 1 and f"set TELEGRAM_BOT_TOKEN in {desk.root}/.env" in done.err
    done = desk.wakebus("channels", "check", "telegrm", "--json")
    assert done.status == 1 and "did you mean telegram?" in done.json["error"]["text"]
    settings(desk, FEISHU_APP_ID="cli_a")
    done = desk.wakebus("channels", "check", "feishu")
    assert done.status == 1 and "FEISHU_APP_SECRET is not set" in done.out
    assert f"in {desk.root}/.env" in done.out


def test_a_platform_without_a_server(desk: InProcess) -> None:
    """ADP-22.3: no connection is a failure that says so."""
    settings(
        desk, TELEGRAM_BOT_TOKEN="123456789:" + "a" * 35, TELEGRAM_API_BASE="http://127.0.0.1:9"
    )
    done = desk.wakebus("channels", "check", "telegram")
    assert done.status == 1 and done.out.startswith("failed: telegram: ") and "aaa" not in done.both


def test_nothing_is_asked_unbidden(desk: InProcess) -> None:
    """ADP-22.3: a platform that works without settings is asked only where one uses it."""
    names = channels.platforms_to_check(None, {})
    assert "console" in names and "ntfy" not in names
    assert "ntfy" in channels.platforms_to_check(None, {"NTFY_HOME_CHANNEL": "builds"})


def test_results() -> None:
    """Lines as they are printed."""
    one = {"platform": "x", "result": "none", "text": "cannot be checked"}
    assert channels.line_of(one) == "skipped: x: cannot be checked"
    assert CredentialCheck("ok", "me") == ("ok", "me")


def test_help(desk: InProcess) -> None:
    """The verb is in the list, and its own help has examples."""
    assert "channels" in desk.wakebus("--help").out
    assert "wakebus channels check" in desk.wakebus("channels", "--help").out
