"""What waits for a session's next turn."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wakebus.broker.protocol.message import Message
from wakebus.plugin.prompt import pending_context as context_module
from wakebus.plugin.prompt.journal import JournalLine
from wakebus.plugin.prompt.label import PromptItem
from wakebus.plugin.prompt.pending_context import (
    MAX_ITEMS,
    MAX_TEXT,
    Context,
    PendingTexts,
    context_file,
)


def item(id: str, text: str = "", **body: str) -> PromptItem:
    message = Message(id=id, ts=1.0, sender="alpha", to="lead", body={"text": text, **body})
    return PromptItem(message, text or id)


def ids(context: Context, session: str) -> list[str]:
    return [item.message.id for item in context.waiting(session).items]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return context_file(tmp_path, "lead")


def test_texts_wait_per_session_and_are_shown_once(file: Path) -> None:
    """In their order; another session's are not touched."""
    context = Context(file)
    assert [context.add("a", item("m1")), context.add("a", item("m2"))] == [1, 2]
    assert context.add("b", item("m3")) == 1
    waiting = context.waiting("a")
    assert ids(context, "a") == ["m1", "m2"]
    context.add("a", item("m4"))
    context.shown("a", waiting)
    assert ids(context, "a") == ["m4"] and ids(context, "b") == ["m3"]
    assert ids(context, "nobody") == []
    assert ids(Context(file), "a") == ["m4"]


def test_a_text_that_failing_turns_showed_three_times_is_forgotten(file: Path) -> None:
    """It may be what they fail on; a newer one, and the same message later, are counted anew."""
    context = Context(file)
    context.add("a", item("m1"))
    assert context.failed("a", context.waiting("a"), "t1") == ()
    context.add("a", item("m2"))
    context.add("b", item("m1"))
    assert context.failed("a", context.waiting("a"), "t2") == ()
    for _ in range(5):  # attempts of one message count once
        assert context.failed("a", context.waiting("a"), "t2") == ()
    assert context.failed("a", context.waiting("a"), "t3") == ("m1",)
    assert ids(context, "a") == ids(Context(file), "a") == ["m2"] and ids(context, "b") == ["m1"]
    context.shown("a", context.waiting("a"))
    context.add("a", item("m2"))
    assert context.failed("a", context.waiting("a"), "t4") == () and ids(context, "a") == ["m2"]


def test_the_same_message_waits_once(file: Path) -> None:
    """A redelivery adds nothing."""
    context = Context(file)
    assert [context.add("a", item("m1")), context.add("a", item("m1"))] == [1, 1]
    assert ids(Context(file), "a") == ["m1"]


def test_they_survive_a_restart_with_their_labels(file: Path) -> None:
    """Sender, type, channel, and what is claimed; not the body."""
    given = item("m1", "tekst ✓", type="progress", channel="feishu:1")
    given = given._replace(claimed=True, redelivered=True, attempt=2)
    Context(file).add("a", given)
    (found,) = Context(file).waiting("a").items
    body = {"type": "progress", "channel": "feishu:1"}
    assert found == given._replace(message=given.message._replace(body=body))


def test_a_turn_that_a_kill_cut_off_shows_them_again(file: Path) -> None:
    """SIGKILL between showing and its end: a process of its own."""
    script = f"""
import os
from pathlib import Path
from wakebus.broker.protocol.message import Message
from wakebus.plugin.prompt.pending_context import Context
from wakebus.plugin.prompt.label import PromptItem
context = Context(Path({str(file)!r}))
for n in range(3):
    message = Message(id=f"m{{n}}", ts=1.0, sender="a", to="lead", body={{}})
    context.add("s", PromptItem(message, "text"))
shown = context.waiting("s")._replace(items=context.waiting("s").items[:1])
context.shown("s", shown)
context.waiting("s")
os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", script], timeout=60).returncode == -9
    assert ids(Context(file), "s") == ["m1", "m2"]


def test_a_half_written_line_loses_nothing_before_or_after(file: Path) -> None:
    """Its message was not acknowledged, so it comes again."""
    Context(file).add("a", item("m1"))
    (journal,) = file.parent.iterdir()
    with journal.open("a") as written:
        written.write('{"session": "a", "item": {"mess')
    context = Context(file)
    context.add("a", item("m2"))
    assert ids(Context(file), "a") == ["m1", "m2"]


def test_a_disk_that_takes_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """OSError, nothing is kept only in memory; when the disk is back, it goes on."""
    context = Context(file)
    context.add("a", item("m1"))

    def refuse(*args: object, **named: object) -> int:
        raise OSError(30, "Read-only file system")

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        for _ in range(2):  # the second try must not find it kept
            with pytest.raises(OSError, match="Read-only"):
                context.add("a", item("m2"))
        assert ids(context, "a") == ["m1"]
        with pytest.raises(OSError, match="Read-only"):
            context.shown("a", context.waiting("a"))
        assert ids(context, "a") == []  # but shown is shown, for this process
    context.add("a", item("m2"))
    assert ids(context, "a") == ["m2"]
    assert ids(Context(file), "a") == ["m1", "m2"]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """OSError at the first text, not before: a listener that keeps nothing needs no folder."""
    (tmp_path / "context").write_text("a file")
    context = Context(context_file(tmp_path, "lead"))
    with pytest.raises(OSError):
        context.add("a", item("m1"))
    assert ids(context, "a") == []


def test_the_newest_hundred_are_kept_and_the_rest_counted(file: Path) -> None:
    """Also over a restart; what was said to be dropped is not said again."""
    context = Context(file)
    for n in range(MAX_ITEMS + 30):
        context.add("a", item(f"m{n}"))
    for found in (context, Context(file)):
        waiting = found.waiting("a")
        assert len(waiting.items) == MAX_ITEMS and waiting.dropped == 30
        assert waiting.items[0].message.id == "m30"
    context.add("a", item("late"))  # pushes out what the turn shows: not missing
    context.shown("a", waiting)
    assert context.waiting("a").dropped == 0 and ids(context, "a") == ["late"]
    assert Context(file).waiting("a") == context.waiting("a")


def test_many_sessions_are_bounded_together(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fullest gives; it is counted there."""
    monkeypatch.setattr(context_module, "MAX_ALL", 10)
    pending = PendingTexts()
    for n in range(8):
        pending.add_text("full", item(f"m{n}"))
    for n in range(6):
        pending.add_text(f"s{n}", item(f"n{n}"))
    assert len(pending) == 10 and pending.dropped == {"full": 4}


def test_the_journal_stays_short(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A day of adding and showing is not a day's file."""
    monkeypatch.setattr(context_module, "SPARE_LINES", 20)
    context = Context(file)
    context.add("b", item("stays"))
    for n in range(60):
        context.add("a", item(f"m{n}"))
        context.shown("a", context.waiting("a"))
    (journal,) = file.parent.iterdir()
    assert len(journal.read_text().splitlines()) < 30
    assert ids(Context(file), "b") == ["stays"] and ids(Context(file), "a") == []


def test_a_long_text_is_cut_and_says_where_the_whole_is(file: Path) -> None:
    """8 KiB of it; the body is not kept beside it."""
    context = Context(file)
    context.add("a", item("m1", "é" * 1_000_000))
    (found,) = context.waiting("a").items
    assert found.text.startswith("é" * MAX_TEXT + "\n[cut: 8192 of 1000000 characters;")
    assert "`wakebus trace m1 --text`" in found.text
    assert file.parent.stat() and next(file.parent.iterdir()).stat().st_size < 100_000


def test_takeover_two_processes_never_write_one_file(file: Path) -> None:
    """The loser's late words are errors; what it kept before is the winner's."""
    loser = Context(file)
    loser.add("a", item("m1"))
    winner = Context(file)
    winner.add("a", item("m2"))
    with pytest.raises(OSError, match="another process has taken over"):
        loser.add("a", item("m3"))
    with pytest.raises(OSError, match="another process has taken over"):
        loser.shown("a", loser.waiting("a"))
    assert ids(winner, "a") == ids(Context(file), "a") == ["m1", "m2"]


def test_nothing_is_read_before_the_name_is_held(file: Path) -> None:
    """The old holder may write until then."""
    old, new = Context(file), Context(file)
    old.add("a", item("m1"))
    assert ids(new, "a") == ["m1"]


def test_many_threads(file: Path) -> None:
    """Nothing is lost, in memory or on disk."""
    context = Context(file)

    def work(session: str) -> None:
        for n in range(20):
            context.add(session, item(f"{session}{n}"))

    threads = [threading.Thread(target=work, args=(f"s{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    for n in range(4):
        assert ids(context, f"s{n}") == ids(Context(file), f"s{n}")
        assert ids(context, f"s{n}") == [f"s{n}{m}" for m in range(20)]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["session", "item", "shown", "dropped", "x"]), JSON),
    st.dictionaries(st.sampled_from([*PromptItem._fields, "x"]), JSON),
)
def test_lines_of_another_version_raise_nothing(line: dict[str, object], inner: object) -> None:
    """Whatever JSON it is."""
    pending = PendingTexts()
    pending.add_text("a", item("m1"))
    pending.apply(line)
    pending.apply({"session": "a", "item": inner})
    assert pending.holds("a", "m1") or "shown" in line
    pending.lines()


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "show"]), st.sampled_from("ab"), st.integers(0, 12)),
        max_size=30,
    )
)
def test_a_journal_says_the_same_as_the_memory(steps: list[tuple[str, str, int]]) -> None:
    """Any adds and shows, replayed or rewritten: the same waits; sessions never mix."""
    live, replayed = PendingTexts(), PendingTexts()
    for verb, session, n in steps:
        if verb == "add":
            added = item(f"{session}{n}")
            line: JournalLine = {"session": session, "item": context_module._to_json(added)}
            live.add_text(session, added)
        else:
            shown = [i.message.id for i in live.sessions.get(session, [])[: n or None]]
            line = {"session": session, "shown": shown, "dropped": 0}
            live.forget(session, shown, 0)
        replayed.apply(line)
    rewritten = PendingTexts()
    for written in live.lines():
        rewritten.apply(written)
    for session in "ab":
        kept = [i.message.id for i in live.sessions.get(session, [])]
        for other in (replayed, rewritten):
            assert [i.message.id for i in other.sessions.get(session, [])] == kept
        assert all(id.startswith(session) for id in kept)
