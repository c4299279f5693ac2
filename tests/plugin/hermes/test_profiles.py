"""One process of Hermes that serves several profiles, each an endpoint of its own (HERMES-2.16)."""

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fakes.broker import until
from fakes.hermes_profiles import Multiplexer
from wakebus.broker import Client
from wakebus.plugin.hermes import runtime as runtimes
from wakebus.plugin.hermes.runtime import client_of, runtime_of

MakeMultiplexer = Callable[..., Multiplexer]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bus: Client) -> Iterator[MakeMultiplexer]:
    """Return a maker of a gateway that serves profiles, which has no plugin loaded yet."""
    monkeypatch.delenv("HERMES_BUS_ENDPOINT")
    monkeypatch.setattr(runtimes, "_runtimes", {})
    made: list[Multiplexer] = []

    def make(*names: str) -> Multiplexer:
        made.append(Multiplexer(tmp_path, monkeypatch, *names))
        return made[-1]

    yield make
    for one in made:
        one.close()


def live(bus: Client) -> set[str]:
    """Return the endpoints that have a holder."""
    return {str(one["name"]) for one in bus.list() if one["state"] == "live"}


def test_each_profile_is_an_endpoint(bus: Client, make: MakeMultiplexer) -> None:
    """HERMES-2.16: register is called once for each, in one process; a profile without, none."""
    gateway = make("work", "quiet")
    gateway.load("default")
    gateway.load("work")
    until(lambda: all(gateway.runtime(name).receiving for name in ("default", "work")))
    assert {"hermes-bus-gateway", "work-gateway"} <= live(bus)
    assert not {name for name in live(bus) if name.startswith("quiet")}
    assert gateway.runtime("work") is not gateway.runtime("default")
    for profile, name in (("default", "hermes-bus-gateway"), ("work", "work-gateway")):
        found = gateway.runtime(profile)
        assert (found.endpoint, found.mode) == (name, "gateway")
        assert found.membership is not None and found.membership.live.profile == profile
        assert client_of(found.home.key) is found.client


def test_a_home_that_the_gateway_does_not_serve_has_none(
    bus: Client, make: MakeMultiplexer
) -> None:
    """HERMES-2.16: a desktop builds managers for homes that are another gateway's; parked ones."""
    gateway = make("work")
    gateway.load("work")
    until(lambda: "work-gateway" in live(bus))
    gateway.park("work")
    until(lambda: "work-gateway" not in live(bus))
    gateway.load("elsewhere")
    assert gateway.runtime("elsewhere").listens is False
    gateway.serve("work")
    until(lambda: "work-gateway" in live(bus))


def test_before_the_profiles_are_started_none_is_there(bus: Client, make: MakeMultiplexer) -> None:
    """HERMES-2.16: until then nobody knows whose bot is whose."""
    gateway = make("work")
    gateway.runner._served_profile_homes = None
    gateway.load("work")
    assert gateway.runtime("work").listens is False
    gateway.serve("work")
    until(lambda: "work-gateway" in live(bus))


def test_registered_again_it_stays_one(bus: Client, make: MakeMultiplexer) -> None:
    """HERMES-2.2: of each profile."""
    gateway = make("work")
    for _ in range(3):
        gateway.load("work")
    found = gateway.runtime("work")
    until(lambda: found.receiving)
    gateway.load("work")
    assert gateway.runtime("work") is found and len(gateway.threads()) == 1
    assert live(bus) & {"work-gateway", "work-gateway-2"} == {"work-gateway"}


def test_unloaded_it_leaves_and_comes_back(bus: Client, make: MakeMultiplexer) -> None:
    """HERMES-2.17: disabled, updated, discovered anew; the other profiles notice nothing."""
    gateway = make("work")
    gateway.load("default")
    gateway.load("work")
    until(lambda: {"hermes-bus-gateway", "work-gateway"} <= live(bus))
    epoch = gateway.runtime("default").membership
    gateway.unload("work")
    until(lambda: "work-gateway" not in live(bus))
    assert gateway.runtime("work").listens is False and not gateway.threads("work")
    gateway.load("work")
    until(lambda: "work-gateway" in live(bus))
    for _ in range(5):  # at once: it is started while it leaves
        gateway.reload("work")
    until(lambda: gateway.runtime("work").receiving and "work-gateway" in live(bus))
    assert gateway.runtime("default").membership is epoch
    assert len(gateway.threads()) == 2


def test_what_was_not_finished_comes_again(bus: Client, make: MakeMultiplexer) -> None:
    """HERMES-2.17: it waits in the broker until the plugin is there again."""
    gateway = make("work")
    mark = gateway.home("work") / "on"
    gateway.rules("work", f"callbacks: [{{match_type: '*', command: 'touch {mark}; sleep 60'}}]")
    gateway.load("work")
    until(lambda: "work-gateway" in live(bus))
    id = bus.send("work-gateway", "x", type="x", sender="ci").id
    until(mark.exists)
    gateway.unload("work")
    until(lambda: [r for r in bus.inbox("work-gateway") if r["state"] == "queued"])
    gateway.rules("work", "callbacks: [{match_type: '*', command: 'true'}]")
    gateway.load("work")
    assert bus.wait(id, 30).state == "handled"


def test_the_environments_name_is_the_launching_profiles(
    bus: Client, make: MakeMultiplexer, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """HERMES-2.4: HERMES_BUS_ENDPOINT names who was launched with it; its own rules, each."""
    monkeypatch.setenv("HERMES_BUS_ENDPOINT", name)
    gateway = make("work", "sales")
    gateway.rules("sales", f"bus: {{endpoint: s{name}}}\ncallbacks: []\n")
    for profile in ("default", "work", "sales"):
        gateway.load(profile)
    expected = {f"{name}-gateway", "work-gateway", f"s{name}-gateway"}
    until(lambda: expected <= live(bus))
    until(lambda: gateway.runtime("sales").endpoint == f"s{name}-gateway")


def test_two_profiles_that_want_one_name(
    bus: Client, make: MakeMultiplexer, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """HERMES-2.7: the second is told that the other one has it, and the line that ends it."""
    gateway = make("work")
    for profile in ("default", "work"):
        gateway.rules(profile, f"bus: {{endpoint: {name}}}\ncallbacks: []\n")
    gateway.load("default")
    until(lambda: gateway.runtime("default").receiving)
    with caplog.at_level(logging.WARNING, "wakebus"):
        gateway.load("work")
        until(lambda: gateway.runtime("work").error)
    said = gateway.runtime("work").error
    assert f"process {os.getpid()} has the name" in said
    assert f"it is this process; to have two, set bus.endpoint in {gateway.home('work')}" in said


EXIT = """
import time, sys
from pathlib import Path
from fakes.broker import until
from fakes.hermes_profiles import Multiplexer
import pytest
names = [f"p{n}" for n in range(6)]
gateway = Multiplexer(Path(sys.argv[1]), pytest.MonkeyPatch(), *names)
for name in names:
    gateway.rules(name, f"callbacks: [{{match_type: '*', command: 'touch {name}; sleep 60'}}]")
    gateway.load(name)
until(lambda: all(gateway.runtime(name).receiving for name in names), 60)
print("ready", flush=True)
sys.stdin.readline()
started = time.monotonic()
import atexit
atexit._run_exitfuncs()
print(time.monotonic() - started)
"""


def test_at_exit_all_leave_within_2_s(bus: Client, home: Path, tmp_path: Path) -> None:
    """HERMES-2.11: together, not one after the other; what was in hand waits again."""
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    env.pop("HERMES_BUS_ENDPOINT")
    with subprocess.Popen(
        [sys.executable, "-P", "-W", "ignore", "-c", EXIT, str(tmp_path)],
        env=env,
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        names = [f"p{number}-gateway" for number in range(6)]
        ids = [bus.send(name, "x", type="x", sender="ci").id for name in names]
        until(lambda: all((tmp_path / f"p{n}").exists() for n in range(6)), 30)
        process.stdin.write("\n")
        process.stdin.flush()
        assert float(process.stdout.readline()) < 6.0  # six times 2 s, one after the other
    until(lambda: not set(names) & live(bus))
    for id, name in zip(ids, names, strict=True):
        (row,) = bus.inbox(name)
        assert (row["id"], row["state"]) == (id, "queued")


def test_all_begin_to_leave_before_one_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """HERMES-2.11: so the 2 s are for all of them."""
    told: list[str] = []
    given: list[float] = []

    class Slow:
        def begin_to_leave(self) -> None:
            told.append("leaves")

        def wait_until_left(self, seconds: float) -> None:
            told.append("waited for")
            given.append(seconds)

    monkeypatch.setattr(runtimes, "_everywhere", {Slow(), Slow(), Slow()})
    runtimes._stop_all()
    assert told == ["leaves"] * 3 + ["waited for"] * 3
    assert given == sorted(given, reverse=True) and given[0] <= runtimes.STOP_S


def test_the_process_is_one_as_before(make: MakeMultiplexer, tmp_path: Path) -> None:
    """HERMES-2.16: where Hermes has one manager (0.19), its home is the process's."""
    gateway = make()
    gateway.load("default")
    assert runtime_of(None) is gateway.runtime("default") and runtime_of(None).home.launched
    assert runtime_of(tmp_path / "profiles" / "x").home.launched is False
