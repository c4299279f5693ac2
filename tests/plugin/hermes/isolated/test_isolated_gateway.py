"""A gateway as a plugin sees it from a process of its own: what it knows, and what it says it does
not."""

import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fakes.broker import Broker, until
from fakes.gateway import QUICK, Gateway
from fakes.hermes_isolated import IsolatedTown, source
from wakebus.adapters import channel as channels
from wakebus.plugin.hermes.host_api.protocol import CannotBegin, Unreachable
from wakebus.plugin.hermes.isolated import isolated_gateway
from wakebus.plugin.hermes.isolated.isolated_gateway import NO_POST, UNSEEN, IsolatedGateway
from wakebus.plugin.hermes.isolated.stored_sessions import source_of

CI = {"match_type": "ci", "context": True}
ASK = {"match_type": "ask", "context": True, "reply": "sender"}
NOTE = {"match_type": "note", "print": True}
DM1 = "mattermost:dm1"
KEY = "agent:main:mattermost:dm:dm1"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A HERMES_HOME."""
    (tmp_path / "home").mkdir(mode=0o700)
    return tmp_path / "home"


@pytest.fixture
def town(home: Path) -> IsolatedTown:
    """A gateway on the other side of the pipe; u1 has written in dm1."""
    found = IsolatedTown(home)
    assert found.admit() == KEY
    return found


@pytest.fixture
def hermes(town: IsolatedTown) -> IsolatedGateway:
    """What wakebus makes of it."""
    return town.gateway()


@pytest.fixture
def gateway(
    shared_broker: Broker, tmp_path: Path, town: IsolatedTown
) -> Iterator[Callable[..., Gateway]]:
    """Return a maker of its endpoint: `gateway(rule, …, intervals=…)`."""
    tmp_path.chmod(0o700)
    made: list[Gateway] = []

    def make(*callbacks: Any, **fields: Any) -> Gateway:
        name, address = f"gw-{secrets.token_hex(5)}", shared_broker.address
        hermes = town.gateway()
        made.append(Gateway(address, tmp_path, name, town, *callbacks, hermes=hermes, **fields))
        town.host = made[-1].host
        return made[-1]

    yield make
    for one in made:
        one.close()


# --- turns on the bus ---------------------------------------------------------------------------


def test_a_message_starts_a_turn(town: IsolatedTown, gateway: Callable[..., Gateway]) -> None:
    """HERMES-9.3, HERMES-9.4: in the person's session; its delivery is not seen, and said so."""
    outcome = gateway(CI).do("build is red", channel=DM1)
    assert "build is red" in town.turns[0]
    assert outcome["turn"]["session"] == KEY and outcome["turn"]["characters"] > 0
    assert outcome["channel"] == {
        **outcome["channel"],
        "result": "uncertain",
        "reason": UNSEEN,
        "to": DM1,
    }


def test_a_turn_waits_for_a_persons(town: IsolatedTown, gateway: Callable[..., Gateway]) -> None:
    """HERMES-9.3: as hooks tell of it; nothing is handed over meanwhile."""
    town.go.clear()
    town.queue("a person's", KEY)
    until(lambda: town.turns)
    endpoint = gateway(CI)
    id = endpoint.send("after you", channel=DM1)
    until(lambda: endpoint.steps(id, "held"))
    assert town.turns == ["a person's"]
    town.go.set()
    assert endpoint.outcome(id)["turn"]["queued_behind"] is True


def test_a_long_turn_of_ours(
    town: IsolatedTown, gateway: Callable[..., Gateway], monkeypatch: pytest.MonkeyPatch
) -> None:
    """HERMES-9.4: it goes on for as long as hooks say so, whatever is quiet."""
    looks, in_turn = list[float](), IsolatedGateway.in_turn

    def counted(self: IsolatedGateway, key: str) -> bool:
        looks.append(time.monotonic())
        return in_turn(self, key)

    monkeypatch.setattr(IsolatedGateway, "in_turn", counted)
    town.go.clear()
    endpoint = gateway(CI)
    id = endpoint.send("long", channel=DM1)
    until(lambda: town.turns)
    began = time.monotonic()
    until(lambda: looks[-1] - began > 2 * QUICK.settle)
    assert not endpoint.steps(id, "handled")
    town.go.set()
    assert "error" not in endpoint.outcome(id)["turn"]


def test_what_hermes_drops_is_told(town: IsolatedTown, gateway: Callable[..., Gateway]) -> None:
    """HERMES-9.4: True is not begun: after a bounded time it is in doubt, and not run again."""
    town.denied.add(KEY)
    endpoint = gateway(CI, intervals=QUICK._replace(accepted=0.2))
    receipt = endpoint.sender.wait(endpoint.send("x", channel=DM1), 30)
    assert receipt.state == "dead" and "Hermes accepted it" in receipt.reason, receipt
    assert receipt.in_doubt and town.turns == []


def test_a_refusal_is_told(town: IsolatedTown, gateway: Callable[..., Gateway]) -> None:
    """HERMES-9.4: at once."""
    town.says = False
    endpoint = gateway(CI)
    assert "inject_message" in endpoint.failed(endpoint.send("x", channel=DM1))


def test_a_cancelled_turn_goes_on(town: IsolatedTown, gateway: Callable[..., Gateway]) -> None:
    """HERMES-9.4: nothing ends it; its message is dead when it has ended, and says what it did."""
    town.go.clear()
    endpoint = gateway(CI)
    id = endpoint.send("long", channel=DM1)
    until(lambda: town.turns)
    endpoint.sender.cancel(id, by="ci")
    until(lambda: endpoint.steps(id, "cancelled"))
    town.go.set()
    receipt = endpoint.sender.wait(id, 30)
    assert (receipt.state, receipt.reason) == ("dead", "cancelled by ci")
    assert receipt.outcome and receipt.outcome["turn"]["characters"] > 0


def test_an_answer_is_not_withheld(town: IsolatedTown, gateway: Callable[..., Gateway]) -> None:
    """HERMES-9.4: the sender has it, and so has the chat: a hook could only change the history."""
    outcome = gateway(ASK).do("forty two", type="ask", channel=DM1)
    assert "answer" in outcome and outcome["channel"]["result"] == "uncertain"
    until(lambda: town.posts)


def test_a_stranger_gets_no_turn(town: IsolatedTown, gateway: Callable[..., Gateway]) -> None:
    """HERMES-9.2: who wrote and was not let in is nobody."""
    endpoint = gateway(CI)
    event = source_of(source("stranger", "dm9"))
    endpoint.host.on_message(type("Event", (), {"source": event, "internal": False}))
    receipt = endpoint.sender.wait(endpoint.send("x", channel="mattermost:dm9"), 30)
    assert receipt.state == "dead" and "nobody who may talk" in receipt.reason


def test_a_print_is_the_couriers(town: IsolatedTown, gateway: Callable[..., Gateway]) -> None:
    """HERMES-9.5: here nobody plays it: both reasons are told."""
    endpoint = gateway(NOTE)
    receipt = endpoint.sender.wait(endpoint.send("x", type="note", channel=DM1), 30)
    assert receipt.state == "dead" and NO_POST in receipt.reason and "courier" in receipt.reason


# --- what it knows ------------------------------------------------------------------------------


def test_somebody_new_is_let_in(town: IsolatedTown, gateway: Callable[..., Gateway]) -> None:
    """HERMES-9.2: known before their session is written down."""
    endpoint = gateway(CI)
    key = town.admit(source("u2", "grp", chat_type="group"))
    town.rows.pop()
    assert endpoint.do("x", channel="mattermost:grp")["turn"]["session"] == key


def test_no_session_is_found(hermes: IsolatedGateway) -> None:
    """HERMES-9.2: sessions are on disk, whatever the gateway does."""
    assert hermes.has_sessions()
    assert hermes.session_of("") is None and hermes.session_of("none") is None


def test_another_profiles_sessions(town: IsolatedTown, hermes: IsolatedGateway) -> None:
    """HERMES-9.2: are not ours, where the gateway serves both."""
    town.rows.append({**town.rows[0], "id": "w", "session_key": "agent:work:mattermost:dm:dm1"})
    town.write_state(served_profiles=["default", "work"])
    assert [one.key for one in hermes.sessions()] == [KEY]
    assert hermes.profile_of("agent:work:x") == "work" and hermes.profile_of(KEY) == ""
    assert hermes.is_ours(source_of(source())) and not hermes.is_ours(
        source_of(source(profile="work"))
    )
    assert hermes.all_platforms() == ("mattermost", "ntfy")


def test_a_session_of_before_we_came(home: Path) -> None:
    """HERMES-9.2, HERMES-9.7: a plugin host that is new knows who was stored."""
    IsolatedTown(home).admit()
    town = IsolatedTown(home)
    town.rows = [
        {
            "id": "h",
            "session_key": KEY,
            "source": "mattermost",
            "origin_json": '{"platform": "mattermost", "chat_id": "dm1", "user_id": "u1"}',
        }
    ]
    hermes = town.gateway()
    found = hermes.session_of("h")
    assert found is not None and hermes.key_of(found.source) == KEY
    assert hermes.may_talk(found.source) and hermes.may_talk(source_of(source("u2"))) is None
    assert not hermes.may_talk(source_of({"platform": "mattermost", "chat_id": "dm1"}))


@pytest.mark.parametrize(
    ("said", "away"),
    [
        ("running", ""),
        ("degraded", ""),
        ("starting", "the gateway is starting"),
        ("draining", "the gateway is stopping"),
        ("stopped", "the gateway is stopping"),
    ],
)
def test_whether_it_is_away(
    town: IsolatedTown, hermes: IsolatedGateway, said: str, away: str
) -> None:
    """HERMES-9.3: as it has written down; nothing yet is a start."""
    town.write_state(said)
    assert hermes.away() == away
    assert hermes.paused() == ""
    (town.process.home / "ESTOP").touch()
    assert "hermes resume" in hermes.paused()
    (town.process.home / "gateway_state.json").unlink()
    assert hermes.away() == "the gateway is starting"


def test_platforms(hermes: IsolatedGateway) -> None:
    """HERMES-9.3: what is not connected waits."""
    assert hermes.platforms() == ("mattermost", "ntfy")
    assert hermes.platform_away("Mattermost") == ""
    assert "ntfy is not connected" in hermes.platform_away("ntfy")
    assert "slack is not connected" in hermes.platform_away("slack")


def test_a_turn_whose_end_is_not_told(
    town: IsolatedTown, hermes: IsolatedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HERMES-9.3: is over when the gateway counts none."""
    town.process.told.begin_turn(f"id of {KEY}", "t1")
    town.write_state(active_agents=0)
    assert hermes.busy(None, KEY) == "a turn runs there" and not hermes.in_turn("another")
    monkeypatch.setattr(isolated_gateway, "UNTOLD_S", 0.0)
    town.write_state(active_agents=1)
    assert hermes.in_turn(KEY)
    town.write_state(active_agents=0)
    assert not hermes.in_turn(KEY) and hermes.busy(None, KEY) == ""


def test_a_session_compressed_in_its_turn(town: IsolatedTown, hermes: IsolatedGateway) -> None:
    """HERMES-9.3: its id is another then; the turn is still known."""
    town.process.told.begin_turn(f"id of {KEY}", "t1")
    assert hermes.in_turn(KEY)
    town.rows[0]["id"] = "another"
    assert hermes.session_of("another") and hermes.session_of(f"id of {KEY}") is None
    assert hermes.in_turn(KEY)


def test_what_is_looked_at_last(town: IsolatedTown, hermes: IsolatedGateway) -> None:
    """HERMES-9.3: what goes on there is waited for, nothing handed over."""
    assert hermes.begin("x", None, KEY, lambda: "a turn", lambda event: None) == "a turn"
    assert town.turns == []


def test_a_pipe_that_breaks(hermes: IsolatedGateway, town: IsolatedTown) -> None:
    """HERMES-9.4: or another Hermes, whose inject_message takes no session: no traceback."""

    def broken(*args: Any, **more: Any) -> bool:
        raise TypeError("unexpected keyword argument 'session_key'")

    hermes = IsolatedGateway(town.process, broken, town.sessions)
    with pytest.raises(CannotBegin, match="session_key"):
        hermes.begin("x", None, KEY, lambda: "", lambda event: None)
    assert hermes.busy(None, KEY) == ""


def configure(town: IsolatedTown, **config: Any) -> None:
    """Write config.yaml."""
    (town.process.home / "config.yaml").write_text(yaml.safe_dump(config))


def test_the_home_channel(town: IsolatedTown, hermes: IsolatedGateway) -> None:
    """HERMES-9.2: of config.yaml; somebody must have written there. A broken file is none."""
    assert hermes.home("mattermost") is None
    home_channel = {"chat_id": "home", "thread_id": "t"}
    configure(town, platforms={"mattermost": {"home_channel": home_channel}})
    assert hermes.home("Mattermost") == ("home", "t")
    assert hermes.owner_source(channels.parse("mattermost:home"), "dm") is None
    assert hermes.chat_type(channels.parse("mattermost:home")) == ""
    (town.process.home / "config.yaml").write_text("a: [")
    assert IsolatedTown(town.process.home).gateway().home("mattermost") is None


def test_where_an_answer_would_land(town: IsolatedTown, hermes: IsolatedGateway) -> None:
    """HERMES-9.4: by what the platform is set to; a print is never Hermes's."""
    thread = channels.parse("mattermost:town?thread=t1")
    assert "reply mode" in hermes.misdirection(thread, None, answer=True)
    configure(town, platforms={"mattermost": {"extra": {"reply_mode": "thread"}}})
    assert hermes.misdirection(thread, None, answer=True) == ""
    ntfy = channels.parse("ntfy:other")
    town_of = town.gateway(environ={"NTFY_TOPIC": "mine"})
    assert "topic 'mine'" in town_of.misdirection(ntfy, None, answer=True)
    assert hermes.misdirection(ntfy, None) == NO_POST
    with pytest.raises(Unreachable, match="posts nothing"):
        hermes.send(ntfy, "x", None, 1.0, [])
    assert hermes.text_limit(ntfy, None) is None


def test_what_no_plugin_can_do(hermes: IsolatedGateway) -> None:
    """HERMES-9.4: end a turn, take one back, withhold an answer, hear of a delivery."""
    assert not hermes.withdraw("x", None) and not hermes.can_withhold("mattermost")
    with pytest.raises(Unreachable, match="ends no turn"):
        hermes.interrupt(KEY, lambda: False)
    assert hermes.listen(None, lambda event, outcome: None) is False


def test_who_gave_a_command(town: IsolatedTown, hermes: IsolatedGateway) -> None:
    """HERMES-9.6: told apart from its call."""
    town.hooks.pre_command(command="bus", args_raw="send a x", session_key=KEY)
    town.hooks.pre_command(command="new", args_raw="send b x", session_key=KEY)
    assert hermes.commander("send b x") is None
    found = hermes.commander("send a x")
    assert found.chat_id == "dm1" and hermes.commander("send a x") is None
