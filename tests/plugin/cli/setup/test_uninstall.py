"""`wakebus uninstall`: what it stops and takes out, what it leaves, and whom it asks."""

import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.broker import until
from fakes.desk import BIN, Desk, running
from wakebus.broker.server.purge_folder import purge_folder
from wakebus.plugin.cli.setup.bus_processes import NO_WORDS, first_word

CONFIG = "model: {default: m} # mine\n"


@pytest.fixture
def desk() -> Iterator[Desk]:
    """A desk whose user's own home is not that of who runs the test."""
    found = Desk()
    found.env["XDG_CONFIG_HOME"] = str(found.root / "config")
    yield found
    found.close()


def at_terminal(desk: Desk, answers: bytes, *words: str) -> tuple[int, str]:
    """Run `wakebus uninstall` with a terminal as standard input; return status and output."""
    ours, theirs = pty.openpty()
    os.write(ours, answers)
    done = subprocess.run(
        [str(BIN / "wakebus"), "uninstall", *words],
        stdin=theirs,
        capture_output=True,
        env=desk.env,
        cwd=desk.root,
        timeout=60,
    )
    os.close(ours)
    os.close(theirs)
    return done.returncode, (done.stdout + done.stderr).decode()


def test_all_of_it(desk: Desk) -> None:
    """HERMES-1.3: broker, listeners and Hermes's files go; messages and the user's files stay."""
    (desk.root / "config.yaml").write_text(CONFIG)
    profile = desk.root / "profiles" / "work"
    profile.mkdir(parents=True)
    (profile / "config.yaml").write_text(CONFIG)
    assert desk.wakebus("install", "hermes").status == 0
    assert desk.wakebus("install", "hermes", "--home", str(profile)).status == 0
    broker = desk.start()
    listener = desk.listen("worker")
    desk.sent("--to", "away", "--queue", "kept")
    shown = desk.wakebus("uninstall", "--dry-run")
    assert shown.status == 0 and "This would:\n" in shown.out and running(broker)
    done = desk.wakebus("uninstall", "--yes")
    assert (done.status, done.err) == (0, ""), done
    assert f"stopped process {listener.process.pid}: wakebus listen worker" in done.out
    assert f"broker stopped (pid {broker})" in done.out
    assert listener.process.wait(10) == 0 and not running(broker)
    for home in (desk.root, profile):
        assert (home / "config.yaml").read_text() == CONFIG
        assert not [*home.glob("hooks/wakebus/*"), *home.glob("skills/*/SKILL.md")]
    assert "(1 not handled yet, 0 dead letters); to delete it: --purge" in done.out
    assert "pip uninstall -y wakebus" in done.out
    again = desk.wakebus("uninstall", "--yes")
    assert again.status == 0 and again.out.startswith("nothing to do\n")
    assert desk.wakebus("uninstall").status == 0  # nothing to ask for


def test_nobody_can_be_asked(desk: Desk) -> None:
    """HERMES-1.3: without a terminal and --yes: says what it would do, does nothing, exit 1."""
    broker = desk.start()
    done = desk.wakebus("uninstall")
    assert done.status == 1 and f"stop the broker and its courier (pid {broker})" in done.out
    assert "nothing was done" in done.err and "--yes" in done.err and running(broker)
    told = desk.wakebus("uninstall", "--json")
    assert told.status == 1 and told.json["done"] == [] and len(told.json["plan"]) == 1
    assert running(broker)


def test_a_person_is_asked_and_for_the_folder_again(desk: Desk) -> None:
    """HERMES-1.3: no is no; each question names what is lost."""
    broker = desk.start()
    desk.sent("--to", "away", "--queue", "kept")
    for answers in (b"\n", b"n\n", b"y\nn\n"):
        status, said = at_terminal(desk, answers, "--purge")
        assert status == 1 and "nothing was done" in said and running(broker)
    assert "with 1 message (1 not handled yet, 0 dead letters), for good? [y/N]" in said
    status, said = at_terminal(desk, b"y\ny\n", "--purge")
    assert status == 0 and not (desk.root / "bus").exists(), said
    status, said = at_terminal(desk, b"", "--purge")
    assert status == 0 and said.startswith("nothing to do\n")


def test_purge_leaves_what_is_not_ours(desk: Desk) -> None:
    """HERMES-1.3: the user's files in the folder stay and are named, also behind a link."""
    desk.start()
    folder, mine = desk.root / "bus", desk.root / "mine"
    mine.mkdir()
    (mine / "file").write_text("mine")
    (folder / "notes.txt").write_text("mine")
    (folder / "files").symlink_to(mine)
    (folder / "context").mkdir()
    (folder / "context" / "worker.jsonl").write_text("{}\n")
    (folder / "conversations").mkdir()
    (folder / "conversations" / "worker.json").write_text("{}\n")
    done = desk.wakebus("uninstall", "--purge", "--yes")
    assert done.status == 0 and "but not files, notes.txt: not wakebus's" in done.out
    assert sorted(one.name for one in folder.iterdir()) == ["files", "notes.txt"]
    assert (mine / "file").read_text() == "mine"


def test_other_buses_and_programs_are_left_alone(desk: Desk) -> None:
    """HERMES-1.3: a listener of another bus goes on; a program with a client is named."""
    other = Desk()
    other.start()
    theirs = other.listen("worker")
    desk.start()
    with desk.client() as bus:
        bus.register("program", lambda _: None)
        done = desk.wakebus("uninstall", "--purge", "--yes")
        assert done.status == 1 and f"still on the bus are program (pid {os.getpid()})" in done.err
        assert "Traceback" not in done.err and (desk.root / "bus" / "bus.db").exists()
    assert not theirs.ended and running(other.broker_pid)
    assert desk.wakebus("uninstall", "--purge", "--yes").status == 0
    assert not (desk.root / "bus").exists() and not theirs.ended
    theirs.end()
    other.close()


def test_the_courier_goes_with_the_broker(desk: Desk) -> None:
    """HERMES-1.3: it is nobody else who would keep the folder from being deleted."""
    desk.env["WAKEBUS_SERVICES"] = "true"
    desk.start()
    with desk.client() as bus:
        until(lambda: [one for one in bus.list() if one["name"] == "courier" and "pid" in one])
    done = desk.wakebus("uninstall", "--purge", "--yes")
    assert (done.status, done.err) == (0, "") and not (desk.root / "bus").exists()
    assert "Still there" not in done.out
    until(lambda: not desk.left())


def test_not_from_a_turn(desk: Desk) -> None:
    """HERMES-1.3: an agent takes out nothing."""
    done = desk.wakebus(
        "uninstall", "--yes", env={"WAKEBUS_TOKEN": "t", "WAKEBUS_ENDPOINT": "worker"}
    )
    assert done.status == 1 and "this is a turn" in done.err


def test_a_broken_config_keeps_nothing_else(desk: Desk) -> None:
    """HERMES-1.3: it is named with the step, exit 1; the broker is stopped all the same."""
    (desk.root / "config.yaml").write_text("a: [\n")
    broker = desk.start()
    done = desk.wakebus("uninstall", "--yes")
    assert done.status == 1 and "config.yaml" in done.err and not running(broker)


def test_purge_of_a_folder_that_is_gone(tmp_path: Path) -> None:
    """Is nothing to do."""
    assert purge_folder(tmp_path / "none") == []


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (["/v/bin/python", "/v/bin/wakebus", "listen", "w"], 2),
        (["/v/bin/python", "-P", "-m", "wakebus.plugin.cli", "listen", "w"], 4),
        (["/v/bin/wakebus", "courier"], 1),
        (["vim", "wakebus", "notes"], NO_WORDS),
        (["/v/bin/python", "/v/bin/wakebus", "send", "listen"], NO_WORDS),
        (["grep", "-r", "listen"], NO_WORDS),
        (["wakebus"], NO_WORDS),
        ([], NO_WORDS),
    ],
)
def test_which_processes_are_ours(words: list[str], place: int) -> None:
    """By the program and its verb, wherever it lies."""
    assert first_word(words) == place


def test_what_listens_is_found_also_without_a_broker(desk: Desk) -> None:
    """HERMES-1.3: a listener that waits for a broker that was stopped."""
    desk.start()
    listener = desk.listen("worker")
    desk.run("hermes-busd", "stop")
    done = desk.wakebus("uninstall", "--yes")
    assert done.status == 0 and "wakebus listen worker" in done.out
    until(lambda: listener.ended)
