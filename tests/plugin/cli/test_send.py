"""`wakebus send`: a text to a chat, and what became of it."""

from collections.abc import Iterator

import pytest

from fakes.desk import Desk


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    """A desk whose broker runs its courier."""
    found = Desk(services=True)
    found.start()
    yield found
    found.close()


def test_sent(desk: Desk) -> None:
    """Exit 0, the chat and the platform's id; the text is in the chat, cleaned."""
    done = desk.wakebus("send", "console:demo", "all green\x1b[2J 中文", "--from", "ci")
    assert done.status == 0 and done.out.startswith("sent to console:demo (id ")
    chat = (desk.root / "bus" / "console-demo.log").read_text()
    assert "all green 中文" in chat and "\x1b" not in chat
    done = desk.wakebus("send", "console:demo", "-", "--from", "ci", "--json", stdin=b"two\n")
    assert done.json["state"] == "handled" and done.json["channel"]["result"] == "sent"
    assert desk.wakebus("trace", done.json["id"]).status == 0


def test_once_per_key(desk: Desk) -> None:
    """The second with the same key is not written again."""
    for _ in range(2):
        words = ("send", "console:keyed", "once", "--from", "ci", "--key", "k1")
        assert desk.wakebus(*words).status == 0
    assert (desk.root / "bus" / "console-keyed.log").read_text().count("once") == 1


@pytest.mark.parametrize(
    ("channel", "status", "says"),
    [
        ("consle:demo", 1, "did you mean console?"),
        ("carrier-pigeon:7", 1, "no adapter for the platform 'carrier-pigeon'"),
        ("console:", 1, "no chat id after the colon"),
        ("console:../../etc/passwd", 1, "console"),
        ("console", 1, "CONSOLE_HOME_CHANNEL"),
        ("con sole:x", 1, "no platform"),
        ("console:a\x1b[2J", 1, "control"),
        ("", 2, "the channel is empty"),
    ],
)
def test_a_wrong_channel(desk: Desk, channel: str, status: int, says: str) -> None:
    """Told before anything is queued, with the near name or the next step."""
    before = desk.run("hermes-busd", "status", "--json").json["accepted"]
    done = desk.wakebus("send", channel, "x", "--from", "ci", "--json")
    assert done.status == status and says in done.err and "\x1b" not in done.both, done
    assert says in done.json["error"]["text"]
    assert desk.run("hermes-busd", "status", "--json").json["accepted"] == before


def test_bad_input(desk: Desk) -> None:
    """Usage errors are 2."""
    assert desk.wakebus("send", "console:demo").status == 2
    assert desk.wakebus("send", "console:demo", "").status == 2
    assert desk.wakebus("send", "console:demo", "-", stdin=b"\xff").status == 2
    assert desk.wakebus("send", "console:demo", "x", "--from", "a b").status == 2


def test_without_a_courier(own_desk: Desk) -> None:
    """Exit 1: it is kept, and how to get a courier; with one it arrives."""
    own_desk.start()
    done = own_desk.wakebus("send", "console:demo", "x", "--wait", "0.2", "--json")
    assert done.status == 1 and "no courier is running" in done.err
    assert "wakebus courier" in done.err and "wakebus trace" in done.err
    assert done.json["error"]["message"] in done.err


FEISHU = {"FEISHU_APP_ID": "cli_a", "FEISHU_APP_SECRET": "hush-7f3a", "HTTPS_PROXY": "nonsense:"}


def test_a_dry_run(own_desk: Desk) -> None:
    """Exit 0 without bus or network: the exact request, the secret masked, nothing left behind."""
    words = ("send", "--dry-run", "feishu:oc_1", "all\x1b[2J **green** 中文", "--id", "m1")
    done = own_desk.wakebus(*words, env=FEISHU)
    assert done.status == 0 and not done.err, done
    assert done.out.startswith("dry run: nothing is sent. feishu:oc_1, 1 part\n")
    assert (
        "POST https://open.feishu.cn/open-apis/im/v1/messages?receive_id_type=chat_id" in done.out
    )
    assert "Authorization: ***" in done.out and '"app_secret":"***"' in done.out
    assert "all **green** 中文" in done.out and '"uuid":"m1"' in done.out
    assert "hush" not in done.out and "\x1b" not in done.out
    assert list(own_desk.root.iterdir()) == []


def test_a_dry_run_in_parts(own_desk: Desk) -> None:
    """With --json: how the text is split, each part with its size, key and requests."""
    text = "".join(f"line {number}\n" for number in range(4000)).strip()
    done = own_desk.wakebus(
        *("send", "--dry-run", "feishu:oc_1", "-", "--id", "m1", "--json"),
        stdin=text.encode(),
        env=FEISHU,
    )
    shown = done.json
    assert (done.status, shown["dry_run"], shown["chat"]) == (0, True, "feishu:oc_1")
    assert len(shown["parts"]) > 1 and "".join(p["text"] for p in shown["parts"]) == text
    assert all(part["size"] <= shown["limit"] for part in shown["parts"])
    assert '"uuid":"m1.2"' in shown["parts"][1]["requests"][0]["body"]


@pytest.mark.parametrize(
    "words",
    [
        ("x", "--id", "m1\nm2"),
        ("x", "--key", "k\n1"),
        ("x", "--from", "a b"),
        ("half a character: \udcff",),
    ],
)
def test_a_dry_run_of_what_is_no_message(own_desk: Desk, words: tuple[str, ...]) -> None:
    """What the bus would not take is not shown as if it could be sent."""
    done = own_desk.wakebus("send", "--dry-run", "feishu:oc_1", *words)
    assert done.status == 2 and done.out == "" and done.err.startswith("wakebus: "), done


def test_a_dry_run_of_what_cannot_be_sent(own_desk: Desk) -> None:
    """Exit 1 with the reason, as the courier would say it."""
    done = own_desk.wakebus("send", "--dry-run", "feishu:oc_1", "x")
    assert done.status == 1 and "FEISHU_APP_ID" in done.err
    done = own_desk.wakebus("send", "--dry-run", "consle:demo", "x", "--json")
    assert done.status == 1 and "did you mean console?" in done.json["error"]["text"]
