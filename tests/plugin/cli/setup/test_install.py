"""`wakebus install`, called as its parser calls it."""

import json
import os
import sys
from pathlib import Path

import pytest

from wakebus.plugin.cli import output
from wakebus.plugin.cli.output import Parser
from wakebus.plugin.cli.setup import install
from wakebus.plugin.install.owned_files import FileFault, OwnedFiles

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Hermes home, and no hermes on PATH."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text("model: {default: m} # mine\n")
    monkeypatch.setenv("HERMES_HOME", str(home))
    monkeypatch.setenv("PATH", str(tmp_path))
    return home


def call(*argv: str) -> int:
    parser = Parser(prog="wakebus install")
    install.COMMAND.set_up(parser)
    args = parser.parse_args(argv)
    return output.guarded("wakebus", args.run, args)


def test_it_lists_what_it_knows(capsys: Captured) -> None:
    """Without a name: the names."""
    assert call() == 0
    assert "wakebus install hermes" in capsys.readouterr().out


def test_from_nothing_to_all(home: Path, capsys: Captured) -> None:
    """Check, install, check, again, remove: each says what it found or did, and the next step."""
    assert call("hermes", "--check") == 1
    told = capsys.readouterr().out
    assert "the plugin is not enabled" in told and "Repair it: wakebus install hermes" in told
    assert call("hermes") == 0
    told = capsys.readouterr().out
    assert "plugin enabled" in told and "hermes gateway restart" in told
    assert "Not on: turns" in told and "--allow-gateway-turns" in told
    assert "--python" in told  # nobody could tell which Python runs Hermes
    assert call("hermes", "--check") == 0
    told = capsys.readouterr().out
    assert "hermes is not on PATH: not checked which Python runs it (--python PATH)" in told
    assert told.endswith("nothing wrong was found\n") and "all is there" not in told
    assert call("hermes", "--check", "--python", sys.executable) == 0
    assert capsys.readouterr().out.endswith("all is there\n")
    assert call("hermes", "--allow-gateway-turns") == 0
    told = capsys.readouterr().out
    assert "gateway turns allowed" in told and "Not on" not in told
    assert call("hermes") == 0
    assert capsys.readouterr().out.startswith("nothing to do")
    assert call("hermes", "--remove") == 0
    assert "removed skill: " in capsys.readouterr().out
    assert (home / "config.yaml").read_text() == "model: {default: m} # mine\n"


def test_plugins_in_a_process_of_their_own(home: Path, capsys: Captured) -> None:
    """HERMES-9.8: what works there and what does not; that is nothing wrong."""
    assert call("hermes") == 0
    config = home / "config.yaml"
    config.write_text(config.read_text().replace("plugins:", "plugins:\n  isolation: host"))
    capsys.readouterr()
    assert call("hermes", "--check") == 0
    told = capsys.readouterr().out
    assert "plugins.isolation: host" in told and "a terminal is no endpoint" in told
    assert call("hermes", "--check", "--json") == 0
    assert json.loads(capsys.readouterr().out)["isolated"] is True


def test_dry_run(home: Path, capsys: Captured) -> None:
    """Everything is said, nothing is done."""
    before = sorted(home.rglob("*"))
    assert call("hermes", "--dry-run", "--allow-gateway-turns") == 0
    told = capsys.readouterr().out
    assert "would change" in told and "restart" not in told and "Not on" not in told
    assert sorted(home.rglob("*")) == before


def test_json(home: Path, capsys: Captured) -> None:
    """One object each time, errors too."""
    assert call("hermes", "--json", "--python", sys.executable, "--allow-gateway-turns") == 0
    done = json.loads(capsys.readouterr().out)
    assert [one["what"] for one in done["changes"]] == ["config", "hook", "hook", "skill"]
    assert done["turns"] is True and done["done"] is True and done["python"] == sys.executable
    assert done["next"] == f"HERMES_HOME={home} hermes gateway restart"
    assert done["unchecked"] == []
    assert call("hermes", "--json", "--check") == 0
    assert "not on PATH" in json.loads(capsys.readouterr().out)["unchecked"][0]
    (home / "hooks/wakebus/HOOK.yaml").unlink()
    assert call("hermes", "--json", "--check") == 1
    wrong = json.loads(capsys.readouterr().out)
    assert wrong["wrong"] == [f"{home / 'hooks/wakebus/HOOK.yaml'}: missing"]
    assert call("hermes", "--json", "--home", str(home / "none")) == 1
    told = capsys.readouterr()
    error = json.loads(told.out)["error"]
    assert "no Hermes home" in error["text"] and "or run hermes once" in error["step"]
    assert told.err == ""


@pytest.mark.parametrize(
    ("tools", "setting", "words"),
    [
        ("", "auto", "auto, Hermes's default: in Hermes 0.20 and later the model finds"),
        ("tools: {tool_search: {enabled: auto}}\n", "auto", "auto: in Hermes 0.20"),
        ("tools: {tool_search: {enabled: on}}\n", "on", "on: the model finds the bus's tools by"),
        ("tools: {tool_search: {enabled: off}}\n", "off", "off: the model has the bus's tools"),
    ],
)
def test_tool_search_is_told(
    home: Path, capsys: Captured, tools: str, setting: str, words: str
) -> None:
    """HERMES-5.14: by --check, which finds nothing wrong with it."""
    call("hermes")
    with (home / "config.yaml").open("a") as config:
        config.write(tools)
    capsys.readouterr()
    assert call("hermes", "--check") == 0
    told = capsys.readouterr().out
    assert f"tool search: {words}" in told and "nothing wrong was found" in told
    assert call("hermes", "--check", "--json") == 0
    assert json.loads(capsys.readouterr().out)["tool_search"] == setting


def test_what_the_user_changed_is_told(home: Path, capsys: Captured) -> None:
    """By install, check and remove."""
    call("hermes")
    (home / "hooks/wakebus/handler.py").write_text("mine = 1\n")
    for argv, words in (
        (["--check"], "changed by you"),
        ([], "--force"),
        (["--remove"], "--force"),
    ):
        capsys.readouterr()
        assert call("hermes", *argv) == 0
        assert words in capsys.readouterr().out
    assert (home / "hooks/wakebus/handler.py").read_text() == "mine = 1\n"


def test_forced_on_trial(home: Path, capsys: Captured) -> None:
    """A file is replaced or kept, never both."""
    call("hermes")
    (home / "hooks/wakebus/handler.py").write_text("mine = 1\n")
    capsys.readouterr()
    assert call("hermes", "--dry-run", "--force") == 0
    told = capsys.readouterr().out
    assert "would change hook" in told and "kept" not in told


def test_each_command_names_the_home(home: Path, tmp_path: Path, capsys: Captured) -> None:
    """Pasted as printed, they meet the same Hermes, also with a blank in its path."""
    other = tmp_path / "my profiles" / "work"
    other.mkdir(parents=True)
    (other / "config.yaml").write_text("")
    named = f"wakebus install hermes --home '{other}'"
    assert call("hermes", "--home", str(other), "--check") == 1
    told = capsys.readouterr().out
    assert f"Repair it: {named}\n" in told and f"{named} --allow-gateway-turns\n" in told
    assert call("hermes", "--home", str(other), "--python", sys.executable) == 0
    told = capsys.readouterr().out
    assert f"{named} --python {sys.executable} --allow-gateway-turns\n" in told
    assert f"HERMES_HOME='{other}' hermes gateway restart" in told
    assert "waits for the chat's next turn" in told
    (other / "config.yaml").write_text("plugins: {disabled: [wakebus]}")
    assert call("hermes", "--home", str(other)) == 1
    assert f"{named} --force\n" in capsys.readouterr().err


def test_the_wrong_python(home: Path, capsys: Captured) -> None:
    """Nothing is enabled that Hermes cannot load; the command to run is told."""
    assert call("hermes", "--python", "/bin/false") == 1
    err = capsys.readouterr().err
    assert "/bin/false is no Python: exit status 1" in err and "pip" not in err
    assert [one.name for one in home.iterdir()] == ["config.yaml"]
    assert call("hermes", "--check", "--python", "/bin/false") == 1
    assert "/bin/false is no Python" in capsys.readouterr().out


def test_only_the_python_is_wrong(home: Path, capsys: Captured) -> None:
    """No command is named that would fail with the same words; the step stands beside the fault."""
    assert call("hermes") == 0
    capsys.readouterr()
    assert call("hermes", "--check", "--python", "/bin/false") == 1
    told = capsys.readouterr().out
    assert "Name the one that runs Hermes: --python PATH" in told
    assert "Repair it" not in told and "all is there" not in told


def test_a_folder_that_may_not_be_written(home: Path, capsys: Captured) -> None:
    """The reason and where to look, no traceback; the config is not switched on half."""
    (home / "hooks").write_text("a file in the way")
    assert call("hermes") == 1
    err = capsys.readouterr().err
    assert "cannot read" in err or "cannot write" in err
    assert "plugins" not in (home / "config.yaml").read_text()


@pytest.mark.parametrize("name", ["", "  ", "~no_such_user/h"])
def test_a_home_that_is_none(name: str, capsys: Captured, tmp_path: Path) -> None:
    """A script's variable without a value never means the current folder."""
    with pytest.raises(SystemExit) as ended:
        call("hermes", "--home", name)
    assert ended.value.code == 2 and "--home" in capsys.readouterr().err


def test_another_home_than_hermess(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hermes goes by $HOME, the bus by the user: where they differ the home is to be named."""
    monkeypatch.delenv("HERMES_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert call("hermes") == 1
    assert f"--home {tmp_path}/.hermes" in capsys.readouterr().err


def test_a_config_that_is_a_pipe(home: Path, capsys: Captured) -> None:
    """It is not waited for."""
    (home / "config.yaml").unlink()
    os.mkfifo(home / "config.yaml")
    assert call("hermes") == 1
    assert "config.yaml is no file" in capsys.readouterr().err


def test_files_that_another_package_owns_too(home: Path, capsys: Captured) -> None:
    """HERMES-1.2: told at each install, with what mends it; what is gone fails --check."""
    shared = FileFault(Path("/v/bin/hermes-busd"), "shared", ("hermes-bus 0.7.0",))
    gone = FileFault(Path("/v/bin/notify-agent"), "missing", ())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(install, "look_at_files_of", lambda _: OwnedFiles([shared], "mend"))
        assert call("hermes") == 0
        told = capsys.readouterr().out
        assert "warning: /v/bin/hermes-busd belongs to hermes-bus 0.7.0 as well" in told
        assert "Mend it: mend\n" in told
        assert call("hermes", "--check") == 0
        assert "warning: /v/bin/hermes-busd" in capsys.readouterr().out
        patch.setattr(install, "look_at_files_of", lambda _: OwnedFiles([gone], "mend"))
        assert call("hermes", "--check") == 1
        told = capsys.readouterr().out
        assert "/v/bin/notify-agent is gone" in told and "Mend it: mend\n" in told
        assert call("hermes", "--check", "--json") == 1
        found = json.loads(capsys.readouterr().out)
        assert found["wrong"] == [gone.says] and found["repair"] == "mend"
