"""`wakebus backup` and `wakebus restore`, as a person uses them."""

from pathlib import Path

from fakes.desk import Desk


def test_there_and_back(own_desk: Desk, tmp_path: Path) -> None:
    """PROTOCOL-8.15, 8.16: each says what was done and the next step; `--json` the same."""
    own_desk.start()
    own_desk.sent("--to", "worker", "--queue", "kept")
    file = tmp_path / "bus.backup"
    done = own_desk.wakebus("backup", str(file))
    assert (done.status, done.err) == (0, "")
    assert "1 message (1 not handled yet, 0 dead letters)" in done.out
    assert f"The way back: wakebus restore {file}" in done.out
    again = own_desk.wakebus("backup", str(file))
    assert again.status == 1 and "exists; nothing is overwritten" in again.err
    running = own_desk.wakebus("restore", str(file), "--json")
    assert running.status == 1 and running.json["error"]["code"] == "backup"
    assert "hermes-busd stop" in running.err
    own_desk.sent("--to", "worker", "--queue", "lost")
    own_desk.run("hermes-busd", "stop")
    done = own_desk.wakebus("restore", str(file))
    assert done.status == 0 and "hermes-busd start" in done.out
    assert "What was not handled then (1) is delivered again, labelled as redelivered" in done.out
    own_desk.start()
    shown = own_desk.wakebus("inbox", "worker").out
    assert "kept" in shown and "lost" not in shown


def test_usage(own_desk: Desk) -> None:
    """No file, no name, no bus, no backup: one line each and no traceback."""
    assert own_desk.wakebus("backup").status == 2
    assert own_desk.wakebus("backup", "").status == 2
    assert own_desk.wakebus("backup", "-").status == 2
    for words in (("backup", "new"), ("restore", "none"), ("restore", str(own_desk.root))):
        done = own_desk.wakebus(*words)
        assert done.status == 1 and "Traceback" not in done.err, done
        assert len(done.err.splitlines()) <= 2
