"""
Every platform behind the real transport and a real server that misbehaves by name.

One table holds for all: what is certain has its word, what may have been accepted goes out again
only where a key makes it one message. What a platform does otherwise stands in OTHERWISE, with
why. What only one platform has is in test_platforms_behave.py.
"""

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from fakes.carrier import Carrier
from fakes.chats import FAMILIES
from fakes.chats.cases import BY_NAME, CASES, LONG, Case, each, long_text
from fakes.platform import Platform, Seen, Step
from wakebus.adapters.delivery.context import MemoryRecord

RULES = {family.name: family() for family in FAMILIES}
Row = tuple[str, int, int]  # the word, how many requests, how many messages stand there

# Step; where a key helps, where none does.
TABLE: dict[Step, tuple[Row, Row]] = {
    "ok": (("sent", 1, 1), ("sent", 1, 1)),
    "slow": (("sent", 1, 1), ("sent", 1, 1)),
    "throttle_429": (("sent", 2, 1), ("sent", 2, 1)),
    "throttle_in_200": (("sent", 2, 1), ("sent", 2, 1)),
    "token_expired_once": (("rejected", 1, 0), ("rejected", 1, 0)),
    "permanent": (("rejected", 1, 0), ("rejected", 1, 0)),
    "error_in_200": (("rejected", 1, 0), ("rejected", 1, 0)),
    "html": (("sent", 2, 1), ("uncertain", 1, 0)),
    "html_429": (("sent", 2, 1), ("sent", 2, 1)),
    "html_502": (("sent", 2, 1), ("uncertain", 1, 0)),
    "redirect": (("rejected", 1, 0), ("rejected", 1, 0)),
    "html_413": (("rejected", 1, 0), ("rejected", 1, 0)),
    "half": (("sent", 2, 1), ("uncertain", 1, 1)),
    "empty": (("sent", 2, 1), ("uncertain", 1, 1)),
    "error_500": (("sent", 2, 1), ("uncertain", 1, 1)),
    "error_500_lost": (("sent", 2, 1), ("uncertain", 1, 0)),
    "hang": (("sent", 2, 1), ("uncertain", 1, 1)),
    "hang_lost": (("sent", 2, 1), ("uncertain", 1, 0)),
    "reset_after_write": (("sent", 2, 1), ("uncertain", 1, 1)),
    "reset_lost": (("sent", 2, 1), ("uncertain", 1, 0)),
    "close_before_read": (("sent", 2, 1), ("uncertain", 1, 0)),
}
# What they ask for when it was too fast, in seconds; they tell no wait of their own.
SLOW = {"wecom": 60.0, "weixin": 30.0, "ntfy": 5.0}
_RENEWED: Row = ("sent", 2, 1)  # its token can be fetched again
_LATER: Row = ("not_sent", 1, 0)  # it asks for seconds to minutes: the courier's to wait
_TAKEN: Row = ("sent", 1, 1)  # by our contract any 2xx is a yes, whatever else it says
_DOUBT: Row = ("uncertain", 1, 0)  # it writes no error into a 200: a proxy may have
OTHERWISE: dict[tuple[str, Step], Row] = {
    **{(name, "token_expired_once"): _RENEWED for name in ("feishu", "dingtalk", "wecom")},
    **{(name, "throttle_429"): _LATER for name in SLOW},
    **{(name, "throttle_in_200"): _LATER for name in SLOW},
    ("webhook", "empty"): _TAKEN,
    ("webhook", "html"): ("sent", 1, 0),
    ("discord", "html_429"): _LATER,  # ADP-14.7: Cloudflare bans this address
    ("ntfy", "error_in_200"): _DOUBT,
    ("mattermost", "error_in_200"): ("sent", 2, 1),
}


@pytest.fixture
def platform() -> Iterator[Platform]:
    """A server of the test's own."""
    found = Platform()
    yield found
    found.close()


def expected(case: Case, step: Step) -> Row:
    """Return what this platform does."""
    return OTHERWISE.get((case.platform, step)) or TABLE[step][0 if case.keyed else 1]


def check(platform: Platform, case: Case, step: Step) -> None:
    """Send one text that meets this step."""
    sent, stood = len(platform.requests()), len(platform.texts())
    carrier = Carrier(platform.settings(case.platform), impatient=step.startswith("hang"))
    platform.plan("send", step)
    word, wanted = carrier(case.channel, key=f"k-{step}").result, expected(case, step)
    platform.wait_for(sent + wanted[1])
    requests, texts = platform.requests()[sent:], platform.texts()[stood:]
    assert (word, len(requests), len(texts)) == wanted, (step, requests)
    check_keys(case, requests)


def check_keys(case: Case, requests: list[Seen]) -> None:
    """All requests of one text carry one key, where there are keys."""
    keys = {seen.key for seen in requests if seen.step != "close_before_read"}
    assert len(keys) <= 1 and (all(keys) or not case.keyed), keys


QUICK = [step for step in TABLE if not step.startswith("hang")]


EACH, PARTED, KEYED = each(), each(LONG), each(c for c in CASES if c.keyed)


@pytest.mark.parametrize("step", QUICK)
@EACH
def test_misbehaviour(platform: Platform, case: Case, step: Step) -> None:
    """ADP-5.3, ADP-5.10: each has its word, its requests, its messages, and the same key."""
    check(platform, case, step)


@each([BY_NAME["discord"], BY_NAME["telegram"]])
def test_silence(platform: Platform, case: Case) -> None:
    """ADP-5.3, ADP-5.10: no answer in time is a doubt, accepted or not."""
    check(platform, case, "hang")
    check(platform, case, "hang_lost")


def free_port() -> int:
    """Return a port at which nobody listens."""
    with closing(socket.create_server(("127.0.0.1", 0))) as held:
        return int(held.getsockname()[1])


@EACH
def test_b2_nobody_there(case: Case) -> None:
    """B2: no connection is certainly not sent: tried again, and sent once when somebody is."""
    port, came = free_port(), list[Platform]()
    carrier = Carrier(RULES[case.platform].settings(f"http://127.0.0.1:{port}"))
    result = carrier(case.channel)
    assert result.result == "not_sent" and result.again and carrier.waits
    carrier.meanwhile = lambda: came.append(Platform(port=port)) if not came else None
    try:
        assert carrier(case.channel).result == "sent"
        assert (came[0].texts(), len(came[0].requests())) == (["hi"], 1)
    finally:
        for platform in came:
            platform.close()


@PARTED
def test_b19_throttled_in_the_middle(platform: Platform, case: Case) -> None:
    """B19: a throttle of the second part delays it and aborts nothing: all once, in order."""
    platform.plan("send", "ok", "throttle_429")
    carrier = Carrier(platform.settings(case.platform))
    result = carrier(case.channel, long_text())
    if wait := SLOW.get(case.platform):  # the courier's
        assert (result.result, result.done, result.retry_after) == ("not_sent", 1, wait)
        return
    assert (result.result, result.done) == ("sent", result.parts)
    assert "".join(platform.texts(case.chat)).split() == long_text().split()


@PARTED
def test_a_part_that_is_refused(platform: Platform, case: Case) -> None:
    """ADP-5.9: the part after the refused one is not sent, and the outcome says how many were."""
    platform.plan("send", "ok", "permanent")
    result = Carrier(platform.settings(case.platform))(case.channel, long_text())
    assert (result.result, result.done, len(platform.requests())) == ("rejected", 1, 2)


@PARTED
def test_it_goes_on_where_it_was(platform: Platform, case: Case) -> None:
    """ADP-5.9: a delivery begins with the first part that does not stand there yet."""
    platform.plan("send", "ok", "throttle_429", "throttle_429", "throttle_429")
    carrier, memory = Carrier(platform.settings(case.platform)), MemoryRecord()
    first = carrier(case.channel, long_text(), progress=memory)
    assert (first.result, first.done, first.again) == ("not_sent", 1, True)
    platform.forget_plans()
    assert carrier(case.channel, long_text(), progress=memory).result == "sent"
    assert "".join(platform.texts(case.chat)).split() == long_text().split()


@each([c for c in CASES if not c.keyed])
@pytest.mark.parametrize("step", ["reset_after_write", "half", "error_500"])
def test_b1_never_twice(platform: Platform, case: Case, step: Step) -> None:
    """B1: without a key what may stand there is not sent again, nor what follows it."""
    platform.plan("send", "ok", step)
    result = Carrier(platform.settings(case.platform))(case.channel, long_text())
    assert (result.result, result.again, result.done) == ("uncertain", False, 1)
    assert len(platform.requests()) == len(platform.texts()) == 2


@each([c for c in LONG if c.keyed])
def test_b4_the_same_key(platform: Platform, case: Case) -> None:
    """B3, B4: with a key the part in doubt goes out again under it, and stands once."""
    platform.plan("send", "ok", "error_500", "ok", "reset_after_write")
    result = Carrier(platform.settings(case.platform))(case.channel, long_text(), "k" * 60)
    keys = [seen.key for seen in platform.requests()]
    assert (result.result, result.parts) == ("sent", len(platform.texts()))
    assert len(keys) == result.parts + 2 and len(set(keys)) == result.parts
    assert "".join(platform.texts(case.chat)).split() == long_text().split()


@KEYED
def test_b4_a_key_that_is_over(platform: Platform, case: Case) -> None:
    """B4: once the platform has forgotten the key, what is in doubt is not sent again."""
    carrier, memory = Carrier(platform.settings(case.platform)), MemoryRecord()
    platform.plan("send", "reset_after_write", "reset_after_write", "reset_after_write")
    first = carrier(case.channel, progress=memory)
    assert (first.result, first.again) == ("uncertain", True)
    platform.forget_plans()
    carrier.time += platform.rules[case.platform].key_s
    sent = len(platform.requests())
    second = carrier(case.channel, progress=memory)
    assert (second.result, second.again) == ("uncertain", False)
    assert len(platform.requests()) == sent and platform.texts() == ["hi"]


HOOKS = pytest.mark.parametrize("name", ["feishu", "dingtalk", "wecom", "slack", "discord"])


@HOOKS
def test_b4_a_webhook_has_no_key(platform: Platform, name: str) -> None:
    """B1, B4: a webhook has no key (Discord's no nonce): in doubt nothing is sent again."""
    platform.plan("webhook", "error_500")
    assert Carrier(platform.settings(name))(f"{name}:webhook").result == "uncertain"
    assert (len(platform.requests("webhook")), platform.texts()) == (1, ["hi"])


def test_b21_matrix(platform: Platform) -> None:
    """B21: M_LIMIT_EXCEEDED waits as long as the server says, and comes under the same txnId."""
    platform.hint = 1.5
    platform.plan("send", "throttle_429")
    carrier = Carrier(platform.settings("matrix"))
    assert carrier(BY_NAME["matrix"].channel).result == "sent"
    first, second = platform.requests()
    assert carrier.waits == [1.5] and first.key == second.key != ""


@EACH
def test_a_long_wait(platform: Platform, case: Case) -> None:
    """B18: a wait beyond a delivery's budget is the courier's, with the platform's own hint."""
    platform.hint = 45.0
    platform.plan("send", "throttle_429")
    carrier = Carrier(platform.settings(case.platform))
    result = carrier(case.channel)
    wait = SLOW.get(case.platform, 45.0)
    assert (result.result, result.retry_after, carrier.waits) == ("not_sent", wait, [])


SECRETS = ("hush", "AAHush")


@pytest.mark.parametrize("step", ["permanent", "token_expired_once", "html", "reset_lost"])
@EACH
def test_no_credential_in_a_reason(platform: Platform, case: Case, step: Step) -> None:
    """ADP-5.14: whatever fails, its reason shows no credential."""
    platform.plan("send", *[step] * 3)
    result = Carrier(platform.settings(case.platform))(case.channel)
    assert result.reason or result.result == "sent"
    assert not any(secret in str(result) for secret in SECRETS)


@EACH
def test_a_wrong_credential(platform: Platform, case: Case) -> None:
    """ADP-4.7: a credential that is not good is never a doubt, and nothing stands there."""
    settings = {
        name: value.replace("hush", "gone").replace("aHVzaC", "Z29uZS")
        for name, value in platform.settings(case.platform).items()
    }
    if not platform.rules[case.platform].renews:
        assert Carrier(settings)(case.channel).result == "rejected"
        assert platform.texts() == []
