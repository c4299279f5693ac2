"""
Feishu and DingTalk behind the real transport and a real server that misbehaves by name.

What they have in common with all others is in test_platforms_behave_alike.py.
"""

from collections.abc import Iterator

import pytest

from fakes.carrier import Carrier
from fakes.platform import Platform, Step

HOME = {"FEISHU_HOME_CHANNEL": "oc_home", "DINGTALK_HOME_CHANNEL": "cidHome=="}


@pytest.fixture
def platform() -> Iterator[Platform]:
    """A server of the test's own."""
    found = Platform()
    yield found
    found.close()


def env(platform: Platform) -> dict[str, str]:
    """Return the settings that lead to the server."""
    return platform.settings("feishu", "dingtalk")


def session(platform: Platform) -> str:
    """Return a session webhook of the server."""
    return f"{platform.url}/robot/sendBySession?session=hush-session"


FEISHU, GROUP, USER = "feishu:oc_1", "dingtalk:cidA==", "dingtalk:user:manager1234"
EACH = [FEISHU, GROUP, USER]


@pytest.mark.parametrize("channel", EACH)
def test_one_text(platform: Platform, channel: str) -> None:
    """ADP-9.1, ADP-10.1: one token, one request, the platform's id."""
    result = Carrier(env(platform))(channel, "hello 中")
    assert (result.result, bool(result.id)) == ("sent", True)
    assert platform.texts() == ["hello 中"]
    assert [len(platform.requests(route)) for route in ("token", "send")] == [1, 1]


@pytest.mark.parametrize("channel", ["feishu:webhook", "dingtalk:webhook"])
def test_a_custom_bot(platform: Platform, channel: str) -> None:
    """ADP-9.6, ADP-10.5: one request, no token and no id."""
    result = Carrier(env(platform))(channel)
    assert (result.result, result.id) == ("sent", "")
    assert (platform.texts(), platform.requests("token")) == (["hi"], [])


@pytest.mark.parametrize(
    ("channel", "expected"), [(FEISHU, ("sent", 2, 1)), (GROUP, ("uncertain", 1, 1))]
)
def test_b3_accepted_and_lost(
    platform: Platform, channel: str, expected: tuple[str, int, int]
) -> None:
    """B3: the answer is lost after the message was taken: the same uuid, and one message."""
    platform.plan("send", "reset_after_write")
    result = Carrier(env(platform))(channel, key="k" * 64)
    assert (result.result, len(platform.requests()), len(platform.texts())) == expected
    assert len({seen.key for seen in platform.requests()}) == 1


def test_b3_parts(platform: Platform) -> None:
    """B3: each part has a uuid of its own, of at most 50 characters, over all its tries."""
    text = "\n\n".join(f"paragraph {n} " + "x" * 4000 for n in range(12))
    platform.plan("send", "ok", "reset_after_write", "throttle_429", "ok")
    result = Carrier(env(platform))(FEISHU, text, key="0199c0ffee-" * 5)
    uuids = [seen.key for seen in platform.requests()]
    assert (result.result, result.parts) == ("sent", len(platform.texts()))
    assert len(uuids) == result.parts + 2 and uuids[1] == uuids[2] == uuids[3]
    assert len(set(uuids)) == result.parts >= 3 and all(0 < len(uuid) <= 50 for uuid in uuids)
    assert "".join(platform.texts()).split() == text.split()


def test_b15_token_refused(platform: Platform) -> None:
    """B15, B16: a refused token is renewed once; the uuid stays; the next text uses the new one."""
    for channel in EACH:
        carrier = Carrier(env(platform))
        carrier(channel)
        platform.plan("send", "token_expired_once")
        tokens, sends = len(platform.requests("token")), len(platform.requests())
        assert [carrier(channel, key=key).result for key in ("k2", "k3")] == ["sent", "sent"]
        assert len(platform.requests("token")) == tokens + 1
        refused, again, after = platform.requests()[sends:]
        assert refused.key == again.key != after.key or channel != FEISHU
        assert refused.token != again.token == after.token


def test_b15_still_refused(platform: Platform) -> None:
    """B15, B16: refused again with a new token: not sent, after one renewal."""
    for channel in EACH:
        tokens, sends = len(platform.requests("token")), len(platform.requests())
        platform.plan("send", "token_expired_once", "token_expired_once")
        assert Carrier(env(platform))(channel).result == "not_sent"
        assert len(platform.requests("token")) == tokens + 2
        assert len(platform.requests()) == sends + 2
        assert platform.texts() == []


def test_wrong_secret(platform: Platform) -> None:
    """ADP-9.5, ADP-10.6: wrong credentials are final, and no text leaves; the variable is named."""
    for channel, name in ((FEISHU, "FEISHU_APP_SECRET"), (GROUP, "DINGTALK_CLIENT_SECRET")):
        result = Carrier({**env(platform), name: "wrong"})(channel)
        assert result.result == "rejected" and name in result.reason
        assert platform.requests() == []


@pytest.mark.parametrize("step", ["html", "throttle_429", "reset_lost", "half", "error_in_200"])
@pytest.mark.parametrize("channel", [FEISHU, GROUP])
def test_no_token(platform: Platform, channel: str, step: Step) -> None:
    """ADP-9.5, ADP-10.6: a doubt about a token is none about the text, which is not sent yet."""
    final = step == "error_in_200"
    asked = 3 if step in ("html", "throttle_429") else 1  # ADP-5.13: silence is the courier's
    platform.plan("token", *[step] * asked)
    carrier = Carrier(env(platform))
    assert carrier(channel).result == ("rejected" if final else "not_sent")
    assert len(platform.requests("token")) == asked
    assert platform.requests() == []
    if not final:
        assert carrier(channel).result == "sent"


@pytest.mark.parametrize(
    ("step", "word", "requests"),
    [("staff_invalid_in_200", "rejected", 1), ("staff_flow_in_200", "sent", 2)],
)
def test_b12_staff_lists(platform: Platform, step: Step, word: str, requests: int) -> None:
    """B12: 200 with a list that names the user is no success: never, or later."""
    platform.plan("send", step)
    assert Carrier(env(platform))(USER).result == word
    assert len(platform.requests()) == requests


def test_b18_hint(platform: Platform) -> None:
    """B18: a throttled text waits for as long as the platform says, and goes out once."""
    platform.hint = 0.5
    platform.plan("send", "throttle_429", "throttle_in_200")
    carrier = Carrier(env(platform))
    assert (carrier(FEISHU).result, platform.texts()) == ("sent", ["hi"])
    assert carrier.waits[0] == 0.5 and len(carrier.waits) == 2


def test_b18_long_hint(platform: Platform) -> None:
    """B18: a wait beyond a delivery's patience is the caller's: not sent, with the hint."""
    platform.hint = 45.0
    for channel in EACH:
        platform.plan("send", "throttle_429")
        carrier = Carrier(env(platform))
        result = carrier(channel)
        assert (result.result, result.retry_after, carrier.waits) == ("not_sent", 45.0, [])


def test_robot_too_fast(platform: Platform) -> None:
    """ADP-10.5: a custom robot that was too fast is mute for 10 minutes; nobody asks meanwhile."""
    platform.hint = None
    platform.plan("webhook", "throttle_429")
    result = Carrier(env(platform))("dingtalk:webhook")
    assert (result.result, result.retry_after) == ("not_sent", 600.0)
    assert len(platform.requests("webhook")) == 1


def test_session_first(platform: Platform) -> None:
    """ADP-10.3: a session webhook that came with the message is used, and needs no token."""
    result = Carrier(env(platform))(GROUP, webhook=session(platform))
    assert (result.result, platform.texts()) == ("sent", ["hi"])
    assert [len(platform.requests(r)) for r in ("session", "token", "send")] == [1, 0, 0]


def test_session_expired(platform: Platform) -> None:
    """ADP-10.3: expired, the same text goes by the OpenAPI at once, without a wait."""
    platform.plan("session", "session_expired")
    carrier = Carrier(env(platform))
    result = carrier(GROUP, webhook=session(platform))
    assert (result.result, platform.texts("cidA=="), carrier.waits) == ("sent", ["hi"], [])
    assert [len(platform.requests(r)) for r in ("session", "send")] == [1, 1]


def test_session_expired_alone(platform: Platform) -> None:
    """ADP-10.3: expired, and no other way is set up: refused, and said."""
    platform.plan("session", "session_expired")
    alone = {"DINGTALK_WEBHOOK_BASE": platform.url}
    result = Carrier(alone)(GROUP, webhook=session(platform))
    assert result.result == "rejected" and "session" in result.reason
    assert "hush" not in result.reason


@pytest.mark.parametrize("step", ["reset_after_write", "half", "html", "error_500"])
def test_session_in_doubt(platform: Platform, step: Step) -> None:
    """ADP-10.3, ADP-10.4: what may have been accepted by one way is not sent by another."""
    platform.plan("session", step)
    assert Carrier(env(platform))(GROUP, webhook=session(platform)).result == "uncertain"
    assert (len(platform.requests("session")), platform.requests()) == (1, [])


def test_dingtalk_never_twice(platform: Platform) -> None:
    """ADP-10.4: the part in doubt ends the message; the parts after it are not sent."""
    text = "\n\n".join(f"paragraph {n} " + "x" * 4000 for n in range(12))
    platform.plan("send", "ok", "reset_after_write")
    result = Carrier(env(platform))(GROUP, text)
    assert (result.result, result.again, result.done) == ("uncertain", False, 1)
    assert len(platform.requests()) == 2 and result.parts > 2


def test_b20_permanent(platform: Platform) -> None:
    """B20: what is wrong for ever is asked once."""
    for channel in EACH:
        before = len(platform.requests())
        platform.plan("send", "error_in_200")
        assert Carrier(env(platform))(channel).result == "rejected"
        assert len(platform.requests()) == before + 1


@pytest.mark.parametrize("channel", ["feishu", "dingtalk"])
def test_b9_home(platform: Platform, channel: str) -> None:
    """B9: a bare platform is its home channel; without one it is an error that names it."""
    settings = env(platform)
    assert Carrier({**settings, **HOME})(channel).result == "sent"
    home = HOME[f"{channel.upper()}_HOME_CHANNEL"]
    assert platform.texts(home) == ["hi"]
    result = Carrier(settings)(channel)
    assert result.result == "rejected" and f"{channel.upper()}_HOME_CHANNEL" in result.reason


@pytest.mark.parametrize("channel", [FEISHU, GROUP])
def test_b9_explicit(platform: Platform, channel: str) -> None:
    """B9: an explicit chat that fails never falls back to the home channel."""
    platform.plan("send", "error_in_200")
    assert Carrier({**env(platform), **HOME})(channel).result == "rejected"
    assert platform.texts() == [] and len(platform.requests()) == 1


EMOJI = "👨‍👩‍👧‍👦"


@pytest.mark.parametrize("channel", [FEISHU, GROUP, "feishu:webhook", "dingtalk:webhook"])
@pytest.mark.parametrize("text", ["😀" * 9000, "a" * 19_390 + EMOJI * 900, '中"\n\\' * 5000])
def test_b23_b27_long(platform: Platform, channel: str, text: str) -> None:
    """B23, B27: each part is within the platform's own limit, whole emoji, nothing lost."""
    result = Carrier(env(platform))(channel, text)
    assert (result.result, result.parts) == ("sent", len(platform.texts()))
    sent = "".join(part.replace("  \n", "\n") for part in platform.texts())
    assert "".join(sent.split()) == "".join(text.split())
    assert "\ufffd" not in sent
    if EMOJI in text:
        assert all(part.count("👨") == part.count("👦") for part in platform.texts())
