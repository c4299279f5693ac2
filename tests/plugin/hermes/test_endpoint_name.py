"""As which endpoint an agent is on the bus (HERMES-2.4, HERMES-2.5)."""

import pytest

from wakebus.broker.protocol.message import check_name
from wakebus.plugin.hermes.endpoint_name import endpoint_name, profile_of


@pytest.mark.parametrize(
    ("given", "ruled", "profile", "cli", "gateway"),
    [
        ("", "", "", "hermes-bus", "hermes-bus-gateway"),
        ("", "", "work", "work", "work-gateway"),
        ("my-endpoint", "", "work", "my-endpoint", "my-endpoint-gateway"),
        ("", "my-endpoint", "work", "my-endpoint", "my-endpoint-gateway"),
        ("first", "second", "third", "first", "first-gateway"),
        ("  ", "", "", "hermes-bus", "hermes-bus-gateway"),
    ],
)
def test_the_seeds_table(given: str, ruled: str, profile: str, cli: str, gateway: str) -> None:
    """HERMES-2.4: environment, then rules, then profile; a gateway adds -gateway, a TUI -tui."""
    told = {"given": given, "ruled": ruled, "profile": profile}
    assert endpoint_name("cli", **told) == (cli, "")
    assert endpoint_name("gateway", **told) == (gateway, "")
    assert endpoint_name("tui", **told) == (f"{cli}-tui", "")


def test_a_gateway_never_shares_a_terminals_name() -> None:
    """HERMES-2.4: with the same settings, whatever they are."""
    for given in ("", "x", "x-gateway", "y" * 70):
        names = {endpoint_name(mode, given=given).name for mode in ("cli", "gateway", "tui")}
        assert len(names) == 3


@pytest.mark.parametrize("stated", ["a b", "größe", "x" * 70, "a/b\n", "日本"])
@pytest.mark.parametrize("mode", ["cli", "gateway", "tui"])
def test_what_is_no_name_is_made_one_and_said(stated: str, mode: str) -> None:
    """HERMES-2.5: it names the setting and the name that is used."""
    name, note = endpoint_name(mode, given=stated)
    assert check_name(name, "endpoint") == name
    assert note.startswith("HERMES_BUS_ENDPOINT ") and name in note
    assert name.endswith("-gateway") is (mode == "gateway")
    assert name.endswith("-tui") is (mode == "tui")


@pytest.mark.parametrize("service", ["courier", "bus"])
def test_a_service_of_the_bus_is_not_replaced(service: str) -> None:
    """HERMES-2.5: the next source names the endpoint, and it is said."""
    name, note = endpoint_name("cli", given=service, ruled="mine")
    assert name == "mine" and "HERMES_BUS_ENDPOINT" in note and service in note
    assert endpoint_name("cli", given=service).name == "hermes-bus"


@pytest.mark.parametrize(
    ("home", "told", "profile"),
    [
        ("/srv/u/.hermes", "default", ""),
        ("/srv/u/.hermes/profiles/sales", "sales", "sales"),
        ("/srv/u/.hermes/profiles/sales/", "", "sales"),
        ("/opt/data/profiles/coder", "custom", "coder"),
        ("/srv/bot", "custom", ""),
        ("/srv/bot", "sales", "sales"),
    ],
)
def test_the_profile_is_read_from_hermes_home(home: str, told: str, profile: str) -> None:
    """HERMES-2.4: as `hermes -p NAME` sets it; "custom" is no profile's name."""
    assert profile_of(home, told) == profile
