"""The owner's grant: one line of config.yaml."""

import os
from pathlib import Path

import pytest

from wakebus.broker.paths import hermes_home
from wakebus.plugin.hermes.shared.turn_grant import LINE, TurnGrant, how_to_grant, is_granted


def write(home: Path, text: str) -> None:
    (home / "config.yaml").write_text(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plugins: {entries: {wakebus: {allow_gateway_injection: true}}}", True),
        ("plugins: {entries: {wakebus: {allow_gateway_injection: false}}}", False),
        ("plugins: {entries: {wakebus: {allow_gateway_injection: 'true'}}}", False),
        ("plugins: {entries: {wakebus: {allow_gateway_injection: 1}}}", False),
        ("plugins: {entries: {other: {allow_gateway_injection: true}}}", False),
        ("plugins: {entries: []}", False),
        ("plugins: [", False),
        ("a: !!bool maybe", False),
        ("a: !!timestamp x", False),
        ("a: 2026-99-99", False),
        ("[" * 1200, False),
        ("", False),
    ],
)
def test_only_a_plain_true_is_a_grant(tmp_path: Path, text: str, expected: bool) -> None:
    """HERMES-3.6: also a file that is no YAML grants nothing."""
    write(tmp_path, text)
    assert TurnGrant(tmp_path)() is expected


def test_a_broken_file_is_what_is_told(tmp_path: Path) -> None:
    """HERMES-3.6: not the grant, which stands in it; repaired, it is forgotten."""
    granted = TurnGrant(tmp_path)
    line = "plugins: {entries: {wakebus: {allow_gateway_injection: %s}}}\n"
    write(tmp_path, line % "true" + "a: [\n")
    assert granted() is False
    assert f"{tmp_path}/config.yaml:3: no YAML" in granted.how and LINE not in granted.how
    assert granted.waiting_note.endswith(granted.how)
    write(tmp_path, line % "false")
    assert granted() is False
    assert granted.how == how_to_grant(tmp_path)


def test_no_file_no_grant(tmp_path: Path) -> None:
    """HERMES-3.6."""
    assert TurnGrant(tmp_path)() is False


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    """HERMES-3.6: nothing is raised."""
    (tmp_path / "config.yaml").write_bytes(b"\xff\xfe: true")
    assert TurnGrant(tmp_path)() is False


def test_it_is_read_again(tmp_path: Path) -> None:
    """HERMES-3.6: turned on and off while the gateway runs."""
    granted = TurnGrant(tmp_path)
    line = "plugins: {entries: {wakebus: {allow_gateway_injection: %s}}}"
    for number, (word, expected) in enumerate((("true", True), ("false", False), ("true", True))):
        write(tmp_path, line % word)
        os.utime(tmp_path / "config.yaml", ns=(0, number))
        assert granted() is expected
        assert granted() is expected


def test_the_command_names_the_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """HERMES-3.6: pasted as told it grants to this Hermes, not to the default one."""
    monkeypatch.delenv("HERMES_HOME", raising=False)
    command = "wakebus install hermes --home '/h x/profiles/w' --allow-gateway-turns"
    assert f"({command} writes it)" in how_to_grant(Path("/h x/profiles/w"))
    assert "--home" not in how_to_grant(hermes_home())


def test_the_line_names_the_key() -> None:
    """HERMES-3.6: what people are told to write is what is read."""
    import yaml

    path, _, value = LINE.partition(": ")
    config = yaml.safe_load(value)
    for key in reversed(path.split(".")):
        config = {key: config}
    assert is_granted(config)
