"""`wakebus dead`: list, show, retry, purge."""

import os
import re
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from fakes.desk import Desk, Listener
from fakes.terminal import Terminal
from wakebus.broker import Refusal
from wakebus.plugin.cli.bus.dead import age_text, duration
from wakebus.plugin.cli.main import main

Listen = Callable[..., Listener]


def dead(desk: Desk, name: str, count: int = 1, **fields: Any) -> list[str]:
    """Make dead letters for `name`, which nobody holds; return their ids, oldest first."""
    ids = [f"{name}-{n}" for n in range(count)]
    with desk.client() as bus:
        bus.declare(name)
        for id in ids:
            bus.send(name, fields.get("body", f"text of {id}"), sender="ci", id=id)
            bus.cancel(id, by="ci")
    return ids


def states(desk: Desk, ids: list[str]) -> list[str]:
    """Return what became of messages; `gone` where nothing is stored."""
    with desk.client() as bus:
        found = {row["id"]: row["state"] for row in bus.inbox(ids[0][:-2], all=True)}
    return [found.get(id, "gone") for id in ids]


def test_list(desk: Desk, name: str) -> None:
    """Newest first: id, age, from, to, type, reason; as many as are wanted."""
    ids = dead(desk, name, 3, body={"text": "x", "type": "t\u202e"})
    done = desk.wakebus("dead", "list", "--to", name)
    assert done.status == 0 and done.err == ""
    head, *lines = done.out.splitlines()
    assert head.split() == ["ID", "AGE", "FROM", "TO", "TYPE", "CHANNEL", "REASON"]
    assert [line.split()[0] for line in lines] == ids[::-1]
    pattern = rf"{ids[2]} +\d+[sm]  ci    {name}  t     -        cancelled by ci"
    assert re.fullmatch(pattern, lines[0]), lines[0]
    done = desk.wakebus("dead", "list", "--to", name, "--limit", "2")
    assert len(done.out.splitlines()) == 3 and "--limit 20" in done.err
    found = desk.wakebus("dead", "list", "--to", name, "--json", "--limit", "2").json
    assert found["more"] is True and [one["id"] for one in found["letters"]] == ids[:0:-1]
    assert found["letters"][0]["reason"] == "cancelled by ci"
    assert desk.wakebus("dead", "list", "--from", f"no-{name}").out == "no dead letters\n"
    assert desk.wakebus("dead", "list", "--to", "a.b").status == 2


def test_show(desk: Desk, name: str) -> None:
    """Steps, reason, outcome and the whole body, cleaned; only of a dead letter."""
    body = {"text": "one\x1b[2J\ntwo", "type": "t", "more": {"k": 1}}
    (id,) = dead(desk, name, body=body)
    out = desk.wakebus("dead", "show", id).out
    head, *rest = out.splitlines()
    assert head.startswith(f"{id}  ci (claimed) → {name}  t  dead")
    assert "  reason: cancelled by ci" in rest and "  body: more (k 1)" in rest
    assert rest[-1] == "two" and "\x1b" not in out
    found = desk.wakebus("dead", "show", id, "--json").json
    assert found["body"] == body and found["reason"] == "cancelled by ci"
    assert [step["what"] for step in found["steps"]] == ["accepted", "queued", "dead"]
    desk.sent("--to", name, "--from", "ci", "--id", f"{name}-open", "hi")
    done = desk.wakebus("dead", "show", f"{name}-open")
    assert done.status == 1 and "is queued, not a dead letter" in done.err
    assert f"wakebus trace {name}-open" in done.err
    done = desk.wakebus("dead", "show", "never", "--json")
    assert done.status == 1 and done.json["error"]["code"] == "unknown_id"


def test_what_its_receiver_refused(desk: Desk, name: str, listen: Listen) -> None:
    """A refusal is listed, told to its sender's listener, shown with its outcome, sent again."""
    asker = f"{name}-asker"
    listener = listen(asker)
    with desk.client() as bus:
        from wakebus.broker import Refusal

        answers = [Refusal("no such tool", {"rule": "none"}), None]
        bus.register(name, lambda _: answers.pop(0))
        desk.sent("--to", name, "--from", asker, "--id", name, "do it")
        bus.wait(name, 30)
        listener.shows(f"Not delivered: your message {name} to {name} is a dead letter")
        listener.shows(f"wakebus dead retry {name}")
        shown = desk.wakebus("dead", "show", name).out
        assert "  reason: no such tool" in shown and "  outcome: rule none" in shown
        done = desk.wakebus("dead", "retry", name, "--from", "me")
        assert (done.status, done.out) == (0, f"retried: {name}\n")
        assert bus.wait(name, 30).state == "handled"
    assert "retried" in desk.wakebus("trace", name).out


def test_retry_says_what_it_did_not_do(desk: Desk, name: str) -> None:
    """Exit 1, with each reason; the others are done."""
    ids = dead(desk, name, 2)
    done = desk.wakebus("dead", "retry", *ids, "never")
    assert (done.status, done.out) == (1, f"retried: {ids[0]}, {ids[1]}\n")
    assert done.err == "not retried: never: no such message is stored\n"
    done = desk.wakebus("dead", "retry", ids[0], "--json")
    assert done.status == 1 and done.json["kept"][0]["why"] == "it is queued, not a dead letter"
    assert states(desk, ids) == ["queued", "queued"]


def test_work_that_had_begun(desk: Desk, name: str) -> None:
    """Is done again only with --force."""
    from wakebus.broker import Delivery, Outcome, Refusal

    def handler(delivery: Delivery) -> Outcome:
        delivery.started()
        return None if delivery.retried else Refusal("half done")

    with desk.client() as bus:
        bus.register(name, handler)
        desk.sent("--to", name, "--from", "ci", "--id", name, "x")
        bus.wait(name, 30)
        assert "(work may have been done)" in desk.wakebus("dead", "list", "--to", name).out
        done = desk.wakebus("dead", "retry", name)
        assert done.status == 1 and "--force" in done.err and done.out == "retried: none\n"
        assert desk.wakebus("dead", "retry", name, "--force").status == 0
        assert bus.wait(name, 30).state == "handled"


def test_all_of_an_endpoint(desk: Desk, name: str) -> None:
    """In the order of their deaths; none is none, and no failure."""
    ids = dead(desk, name, 12)
    other = dead(desk, f"{name}x")
    done = desk.wakebus("dead", "retry", "--to", name)
    assert (done.status, done.out) == (0, "retried: 12\n")
    with desk.client() as bus:
        assert [row["id"] for row in bus.inbox(name)] == ids
        for id in ids:
            bus.cancel(id)
    assert states(desk, other) == ["dead"]
    assert "(retried 1×)" in desk.wakebus("dead", "list", "--to", name).out
    done = desk.wakebus("dead", "purge", "--to", name, "--older-than", "1h")
    assert (done.status, done.out) == (0, "purged: 0\n")
    done = desk.wakebus("dead", "purge", "--to", name, "--json")
    assert done.status == 0 and sorted(done.json["purged"]) == sorted(ids)
    assert desk.wakebus("dead", "retry", "--to", name).out == "retried: 0\n"


def test_of_a_channel(desk: Desk, name: str) -> None:
    """By platform, chat or thread: listed with it, and retried or purged by it."""
    chats = ("feishu:oc_1", "feishu:oc_1?thread=om_1", "feishu:oc_2", "feishu", "ntfy:feishu")
    with desk.client() as bus:
        bus.declare(name)
        for n, chat in enumerate(chats):
            body = {"text": "x", "channel": chat}
            bus.send(name, body, sender="ci", id=f"{name}-{n}")
            bus.cancel(f"{name}-{n}", by="ci")

    def found(*words: str) -> list[int]:
        done = desk.wakebus("dead", "list", "--json", "--to", name, *words)
        return sorted(int(one["id"][-1]) for one in done.json["letters"])

    assert found("--channel", "feishu") == [0, 1, 2, 3]
    assert found("--channel", "feishu:oc_1") == [0, 1]
    assert found("--channel", chats[1]) == [1] and found("--channel", "feishu:oc") == []
    shown = desk.wakebus("dead", "list", "--to", name, "--channel", "feishu", "--limit", "1")
    assert "  -     feishu   cancelled by ci" in shown.out and "--limit 10" in shown.err
    assert desk.wakebus("dead", "list", "--channel", "").status == 2
    done = desk.wakebus("dead", "retry", "--to", name, "--channel", "feishu:oc_1")
    assert done.out == f"retried: {name}-0, {name}-1\n"
    done = desk.wakebus("dead", "purge", "--to", name, "--channel", "ntfy")
    assert done.out == f"purged: {name}-4\n" and found() == [2, 3]


def test_purge_by_id(desk: Desk, name: str) -> None:
    """Without a question; what is open is kept."""
    ids = dead(desk, name, 2)
    desk.wakebus("dead", "retry", ids[1])
    done = desk.wakebus("dead", "purge", *ids)
    assert (done.status, done.out) == (1, f"purged: {ids[0]}\n")
    assert f"not purged: {ids[1]}: it is queued; cancel it first" in done.err
    assert states(desk, ids) == ["gone", "queued"]


def test_purge_all_asks(own_desk: Desk) -> None:
    """In a terminal; elsewhere it wants --yes; retry --all needs neither."""
    own_desk.start()
    ids = dead(own_desk, "e", 2)
    done = own_desk.wakebus("dead", "purge", "--all")
    assert done.status == 2 and "--yes" in done.err
    assert own_desk.wakebus("dead", "purge", "--all", "--json").json["error"]["code"] == "usage"
    for answer, left in (("n", "dead"), ("", "dead"), ("y", "gone")):
        terminal = Terminal(own_desk, "wakebus", "dead", "purge", "--all")
        terminal.shows("for good? [y/N]")
        os.write(terminal._main, f"{answer}\n".encode())
        assert terminal.wait() == (0 if answer == "y" else 1)
        assert states(own_desk, ids) == [left, left]
    dead(own_desk, "f", 2)
    assert own_desk.wakebus("dead", "retry", "--all").out.startswith("retried: f-0, f-1")
    assert own_desk.wakebus("dead", "purge", "--all", "--yes").out == "purged: 0\n"


@pytest.mark.parametrize(
    "words",
    [
        *(("retry",), ("purge",), ("retry", "x", "--all"), ("purge", "x", "--to", "e")),
        *(("retry", "x", "--channel", "ntfy"), ("purge", "--channel", "ntfy", "--all")),
        *(("purge", "--all", "--older-than", "1d"), ("purge", "--older-than", "7"), ("list", "x")),
        *(("list", "--limit", "0"), ("list", "--limit", "x"), ("show",), ()),
    ],
)
def test_usage(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2: one way to say which, and ages with a unit."""
    try:
        status = main(["dead", *words])
    except SystemExit as exc:
        status = int(str(exc.code))
    assert status == 2
    said = capsys.readouterr()
    assert said.out == "" and "wakebus" in said.err


def test_ages() -> None:
    """There and back, in the largest unit."""
    assert [age_text(s) for s in (0, 59, 60, 7_200, 86_400 * 3)] == ["0s", "59s", "1m", "2h", "3d"]
    assert [duration(text) for text in ("90s", "1.5h", "7d")] == [90, 5_400, 604_800]
    for bad in ("", "7", "d", "-1d", "1w", "1e3s", "1d2h", "٣d"):
        with pytest.raises(Exception, match="write 90s, 30m, 12h or 7d"):
            duration(bad)


# --- a row that cannot be read ----------------------------------------------------------------


def test_a_row_that_cannot_be_read(own_desk: Desk) -> None:
    """PROTOCOL-8.13: shown with its id; --all does the others, and says what it did not."""
    own_desk.start()
    ids = dead(own_desk, "e", 3)
    with sqlite3.connect(own_desk.root / "bus" / "bus.db") as db:
        db.execute("UPDATE message SET message='{', log=log||'{' WHERE id='e-1'")
    db.close()
    listed = own_desk.wakebus("dead", "list")
    assert listed.status == 0 and all(id in listed.out for id in ids)
    assert listed.out.count("(unreadable: message, steps)") == 1
    shown = own_desk.wakebus("dead", "show", "e-1")
    assert (
        shown.status == 0 and "reason: cancelled by ci" in shown.out and "unreadable" in shown.out
    )
    boxed = own_desk.wakebus("inbox", "e", "--all").out
    assert "(unreadable: message, steps)" in boxed and "text of e-2" in boxed
    traced = own_desk.wakebus("trace", "e-1")
    assert traced.status == 0 and "dead (unreadable: message, steps) ◀" in traced.out
    again = own_desk.wakebus("dead", "retry", "--all", "--force")
    assert again.status == 1 and again.out == "retried: e-0, e-2\n"
    assert "not retried: e-1: what is stored of it cannot be read" in again.err
    assert "wakebus dead purge e-1" in again.err
    gone = own_desk.wakebus("dead", "purge", "--all", "--yes")
    assert (gone.status, gone.out) == (0, "purged: e-1\n")


def test_a_reason_with_another_line_end(own_desk: Desk) -> None:
    """PROTOCOL-8.13: U+2028 in a refusal reason hides nothing."""
    own_desk.start()
    with own_desk.client() as bus:
        bus.register("e", lambda _: Refusal("no\u2028thanks"))
        bus.send("e", "x", id="e-0", wait=30)
    assert "no thanks" in own_desk.wakebus("dead", "list").out
    again = own_desk.wakebus("dead", "retry", "--all")
    assert (again.status, again.out) == (0, "retried: e-0\n")
    own_desk.wakebus("cancel", "e-0")
    gone = own_desk.wakebus("dead", "purge", "--all", "--yes")
    assert (gone.status, gone.out) == (0, "purged: e-0\n")
