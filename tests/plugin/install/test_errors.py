"""Why nothing was installed."""

from wakebus.broker.errors import WakebusError
from wakebus.plugin.cli.output import FAILED, hint, status_of
from wakebus.plugin.install.errors import CannotInstall


def test_it_says_the_next_step() -> None:
    """On a terminal, and on the wire of `--json`; the exit status is that of a failure."""
    error = CannotInstall("f:3: no YAML", "Repair this line.")
    assert isinstance(error, WakebusError)
    assert hint(error) == "f:3: no YAML\nRepair this line."
    assert error.to_wire()["step"] == "Repair this line." and error.to_wire()["code"] == "install"
    assert status_of(error) == FAILED
