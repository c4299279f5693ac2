"""Hermes's config.yaml and gateway.json on disk."""

import json
import os
from pathlib import Path

import pytest

from wakebus.adapters.channel import parse
from wakebus.adapters.errors import BadChannel, Unavailable
from wakebus.adapters.settings.environment import Environment
from wakebus.adapters.settings.hermes_config import HermesConfig
from wakebus.adapters.settings.home_channel import Home, resolve

GOOD = (
    "platforms:\n  feishu:\n    home_channel: {platform: feishu, chat_id: oc_1, thread_id: om_1}\n"
)
BROKEN = "platforms:\n  feishu: [hush\n  next: }\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A HERMES_HOME."""
    return tmp_path


def say(home: Path, text: str, name: str = "config.yaml") -> None:
    """Replace a file, as editors do."""
    draft = home / "draft"
    draft.write_text(text)
    draft.replace(home / name)


def test_the_platforms_that_it_speaks_of(home: Path) -> None:
    """ADP-7.8: of both files and both places; none of one that is broken."""
    assert HermesConfig(home).platforms() == set()
    say(home, "platforms: {a: {}}\ngateway: {platforms: {b: {}, 7: {}}}\n")
    say(home, '{"platforms": {"c": {}}}', "gateway.json")
    assert HermesConfig(home).platforms() == {"a", "b", "7", "c"}
    say(home, BROKEN)
    assert HermesConfig(home).platforms() == set()
    say(home, "platforms: [a]\ngateway: x\n")
    assert HermesConfig(home).platforms() == {"c"}


def test_a_bare_platform_by_config_yaml(home: Path) -> None:
    """ADP-7.6, B9: through the one environment, thread included; an explicit chat stays."""
    say(home, GOOD)
    env = Environment({}, home / ".env")()
    found = resolve(parse("feishu"), env)
    assert (found.chat_id, found.thread) == ("oc_1", "om_1")
    assert resolve(parse("feishu?thread=om_9"), env).thread == "om_9"
    assert resolve(parse("feishu:oc_2"), env).chat_id == "oc_2"
    assert resolve(parse("feishu:oc_2"), env).thread is None


def test_the_env_file_wins(home: Path) -> None:
    """ADP-7.6: /sethome writes there."""
    say(home, GOOD)
    say(home, "FEISHU_HOME_CHANNEL=oc_env\n", ".env")
    found = resolve(parse("feishu"), Environment({}, home / ".env")())
    assert (found.chat_id, found.thread) == ("oc_env", None)


def test_no_file_and_a_change(home: Path) -> None:
    """ADP-7.6: no file is no home; a new one needs no restart."""
    config = HermesConfig(home)
    assert config("feishu") is None
    say(
        home,
        json.dumps({"platforms": {"feishu": {"home_channel": {"chat_id": "o"}}}}),
        "gateway.json",
    )
    assert config("feishu") == Home("o", "", "platforms.feishu.home_channel in gateway.json")
    say(home, GOOD)
    assert config("feishu") == Home("oc_1", "om_1", "platforms.feishu.home_channel in config.yaml")
    say(home, "# nothing\n")
    (home / "gateway.json").unlink()
    assert config("feishu") is None


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("config.yaml", BROKEN, "config.yaml:3: not YAML: "),
        ("config.yaml", "a: !!python/name:os.system x\n", "config.yaml:1: not YAML: "),
        ("config.yaml", "\x00", "config.yaml:1: not YAML: "),
        ("config.yaml", "[" * 1200, "config.yaml:1: not YAML: "),
        ("config.yaml", "a: 2026-99-99\n", "config.yaml:1: not YAML: "),
        ("config.yaml", "a:\n  - !!bool hush\n", "config.yaml:2: not YAML: a value is not what"),
        ("config.yaml", "\na: !!timestamp hush\n", "config.yaml:2: not YAML: a value is not what"),
        ("config.yaml", '\n\na: !!int ""\n', "config.yaml:3: not YAML: a value is not what"),
        ("config.yaml", "a: !!float hush\n", "config.yaml:1: not YAML: a value is not what"),
        ("config.yaml", "a: *hush\n", "config.yaml:1: not YAML: found undefined alias …"),
        ("config.yaml", "a: !hush-'x' b\n", "config.yaml:1: not YAML: could not determine"),
        ("config.yaml", "a: {b: c\nd\n", "config.yaml:3: not YAML: expected ',' or '}', but"),
        ("gateway.json", '{\n"a": }', "gateway.json:2 is not JSON"),
        ("gateway.json", "[" * 100_000, "gateway.json is not JSON"),
    ],
)
def test_a_broken_file(home: Path, name: str, text: str, says: str) -> None:
    """ADP-7.7: named by file and line, with the way around it; never "no home", never its text."""
    say(home, text, name)
    with pytest.raises(BadChannel, match="name the home channel by its variable") as caught:
        HermesConfig(home)("feishu")
    assert f"{home}/{says}" in caught.value.text and "hush" not in caught.value.text
    env = Environment({"FEISHU_HOME_CHANNEL": "oc_env"}, home / ".env")()
    assert resolve(parse("feishu"), env).chat_id == "oc_env"
    assert resolve(parse("feishu:oc_2"), Environment({}, home / ".env")()).chat_id == "oc_2"


def test_a_home_of_many_digits(home: Path) -> None:
    """ADP-7.6: no chat has such a number, and Python writes none."""
    say(home, f"platforms: {{feishu: {{home_channel: {{chat_id: 0x{'f' * 9999}}}}}}}\n")
    with pytest.raises(BadChannel, match="names no chat"):
        HermesConfig(home)("feishu")


@pytest.mark.parametrize("name", ["x" * 300, "file/x"], ids=["long", "below a file"])
def test_a_place_that_cannot_be(home: Path, name: str) -> None:
    """ADP-7.7: a HERMES_HOME that no file can be in is an error with its reason, no traceback."""
    (home / "file").touch()
    with pytest.raises(Unavailable, match=r"\.env cannot be read: .*HERMES_HOME"):
        Environment({}, home / name / ".env")()
    with pytest.raises(BadChannel, match="json cannot be read: "):
        HermesConfig(home / name)("feishu")


@pytest.mark.parametrize("name", ["config.yaml", "gateway.json"])
def test_a_file_that_others_may_write_is_refused(home: Path, name: str) -> None:
    """ADP-6.34: it could name another chat as the home."""
    file = home / name
    file.write_text('{"platforms": {"feishu": {"home_channel": {"chat_id": "oc_1"}}}}')
    file.chmod(0o606)
    with pytest.raises(BadChannel, match=f"chmod go-w {file}"):
        HermesConfig(home)("feishu")


@pytest.mark.parametrize("kind", ["folder", "pipe", "latin-1", "huge"])
def test_a_file_that_cannot_be_read(home: Path, kind: str) -> None:
    """ADP-7.7: nothing waits, nothing is taken for empty."""
    file = home / "config.yaml"
    if kind == "folder":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    else:
        file.write_bytes(b"a: caf\xe9\n" if kind == "latin-1" else b"#" * (4 << 20) + b"\n##")
    with pytest.raises(BadChannel, match=str(file)):
        HermesConfig(home)("feishu")


def test_the_last_good_one_stays(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    """ADP-7.7: a courier goes on with it while somebody edits, and says so once per change."""
    say(home, GOOD)
    config = HermesConfig(home)
    before = config("feishu")
    say(home, BROKEN)
    assert config("feishu") == config("feishu") == before
    assert len(caplog.messages) == 1 and "config.yaml:3: not YAML" in caplog.text
    assert "hush" not in caplog.text
    say(home, GOOD.replace("oc_1", "oc_2"))
    assert config("feishu") == Home("oc_2", "om_1", "platforms.feishu.home_channel in config.yaml")
