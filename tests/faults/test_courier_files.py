"""
Files through the courier, which is killed between the text, the upload and the file.

Real broker, real courier service, platforms on loopback: Mattermost has a file brought there first
and keeps its keys for 30 s; Telegram takes it in one request and knows no keys.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from fakes.broker import until
from fakes.platform import Platform, Step
from fakes.stage import Stage, staged
from wakebus.adapters.delivery import attachments

UPLOADING, TAKEN, LOST = ("a1" * 13, "b2" * 13, "c3" * 13)  # channels of Mattermost
DOUBT, BETWEEN = "41", "42"  # chats of Telegram
SHOWN = "file1" + 21 * "x"  # what stands in Mattermost for a file
ROWS = "rows"  # and in Telegram


@pytest.fixture
def stage() -> Iterator[Stage]:
    yield from staged("mattermost", "telegram")


def hand_in(stage: Stage, path: Path, chat: str, *steps: Step) -> str:
    """Send a text with a file, of which the chat makes `steps`; return the message's id."""
    stage.platform.plan("send", *steps, chat=chat)
    name = "telegram" if chat.isdigit() else "mattermost"
    held = attachments.store(path, stage.desk.root / "bus")
    body = {"channel": f"{name}:{chat}", "text": "see", "file": held}
    with stage.desk.client() as bus:
        return bus.send("courier", body, sender="me").id


def asked(chat: str, times: int, platform: Platform) -> bool:
    """Whether so many requests to this chat have come."""
    return sum(seen.chat == chat for seen in platform.seen) >= times


def put_off(stage: Stage, id: str, why: str) -> bool:
    """Whether the message went back to the broker for this reason."""
    with stage.desk.client() as bus:
        return any(why in one.get("put_off", "") for one in bus.trace(id))


def test_killed_in_the_middle_of_a_file(stage: Stage, tmp_path: Path) -> None:
    """ADP-5.24, ADP-6.8, ADP-6.21: it stands there once; what nobody knows is said to be so."""
    path = tmp_path / "report.txt"
    path.write_text(ROWS)
    stage.platform.hint = 5.0  # a long one is kept over the kill (ADP-6.28)
    stage.platform.plan("upload", "hang")
    ids = [hand_in(stage, path, UPLOADING)]
    stage.platform.wait_for(1, "upload", timeout=60)
    ids.append(hand_in(stage, path, TAKEN, "ok", "hang"))
    ids.append(hand_in(stage, path, LOST, "ok", "hang_lost"))
    ids.append(hand_in(stage, path, DOUBT, "ok", "hang"))
    for chat in (TAKEN, LOST, DOUBT):
        stage.platform.wait(partial(asked, chat, 2), timeout=60)
    ids.append(hand_in(stage, path, BETWEEN, "ok", "throttle_429"))
    until(lambda: put_off(stage, ids[-1], "429"), 60)
    stage.kill("both")
    told = [stage.outcome(id) for id in ids]
    words = [one["result"] for one in told]
    # Mattermost's key is good for 25 s, which is long, but not for ever.
    assert words[0] == words[-1] == "sent" and words[3] == "uncertain"
    assert {*words[1:3]} <= {"sent", "uncertain"} and told[3]["done"] == 1
    check_chats(stage, lost=words[2])


def check_chats(stage: Stage, lost: str) -> None:
    """The text once, the file once behind it; the same request only where a key makes it safe."""
    for chat in (UPLOADING, TAKEN):
        assert stage.platform.texts(chat) == ["see", SHOWN]
    assert stage.platform.texts(LOST) == ["see", SHOWN][: 1 + (lost == "sent")]
    for chat in (DOUBT, BETWEEN):
        assert stage.platform.texts(chat) == ["see", ROWS]
    assert stage.requested(DOUBT) == ["see", ROWS]
    assert stage.requested(BETWEEN) == ["see", ROWS, ROWS]
