"""What other packages do to wakebus's files: they own some too, replace them, take them away."""

import shlex
import sys
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from wakebus.plugin.install import next_steps, owned_files
from wakebus.plugin.install.owned_files import file_faults, is_foreign, look_at_files

OURS = {
    "hermes-busd": "wakebus.broker.server.cli",
    "notify-hermes": "wakebus.plugin.cli.notify",
    "notify-agent": "wakebus.plugin.cli.notify_agent",
}
# What their wheels on PyPI hold: hermes-bus 0.7.0, hermes-notify 0.8.1.
BUS = {"hermes-busd": "hermes_bus.busd", "hermes-bus-server": "hermes_bus.server"}
NOTIFY = {
    "notify-hermes": "hermes_notify.notify_hermes",
    "notify-agent": "hermes_notify.notify_agent",
}


class Site:
    """The folders of an environment; `install` does what pip does."""

    def __init__(self, root: Path) -> None:
        self.bin, self.packages = root / "bin", root / "lib" / "python3" / "site-packages"
        self.bin.mkdir()
        self.packages.mkdir(parents=True)

    def install(self, name: str, version: str, scripts: dict[str, str]) -> Distribution:
        """Write the scripts and the metadata of a package."""
        info = self.packages / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        lines = [f"{script} = {module}:main" for script, module in scripts.items()]
        (info / "entry_points.txt").write_text("\n".join(["[console_scripts]", *lines]))
        for script, module in scripts.items():
            (self.bin / script).write_text(f"#!/p\nfrom {module} import main\n")
        rows = [f"../../../bin/{script},sha256=x,1" for script in scripts]
        rows += [f"{info.name}/METADATA,,", f"{info.name}/__pycache__/gone.cpython-311.pyc,,"]
        (info / "RECORD").write_text("\n".join(rows))
        return Distribution.at(info)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """An environment of the test's own."""
    return Site(tmp_path)


def test_scripts_that_predecessors_own_too(site: Site) -> None:
    """Installed after them, ours work, and their uninstall deletes them: each is told."""
    bus = site.install("hermes-bus", "0.7.0", BUS)
    notify = site.install("hermes-notify", "0.8.1", NOTIFY)
    ours = site.install("wakebus", "0.1.0", OURS)
    faults = file_faults(ours, [bus, notify])
    assert [(one.path.name, one.state, one.owners) for one in faults] == [
        ("hermes-busd", "shared", ("hermes-bus 0.7.0",)),
        ("notify-agent", "shared", ("hermes-notify 0.8.1",)),
        ("notify-hermes", "shared", ("hermes-notify 0.8.1",)),
    ]
    assert "hermes-bus 0.7.0 as well, whose uninstall deletes it" in faults[0].says


def test_scripts_that_they_have_replaced(site: Site) -> None:
    """Installed or updated after us, theirs run under our names."""
    ours = site.install("wakebus", "0.1.0", OURS)
    faults = file_faults(ours, [site.install("hermes-bus", "0.7.0", BUS)])
    assert [(one.path.name, one.state) for one in faults] == [("hermes-busd", "replaced")]
    assert faults[0].says.endswith("hermes-busd is not wakebus's, but that of hermes-bus 0.7.0")
    assert is_foreign("hermes-busd", str(site.bin / "hermes-busd"))
    assert not is_foreign("notify-hermes", str(site.bin / "notify-hermes"))


def test_a_script_that_their_uninstall_has_taken_along(site: Site) -> None:
    """Our RECORD names it and it is not there; nobody is left to be blamed."""
    ours = site.install("wakebus", "0.1.0", OURS)
    (site.bin / "hermes-busd").unlink()
    (fault,) = file_faults(ours, [])
    assert (fault.path, fault.state) == (site.bin / "hermes-busd", "missing")
    assert "is gone" in fault.says


def test_other_environments_are_not_meant(site: Site, tmp_path: Path) -> None:
    """The same name in another one's folder is another file."""
    (tmp_path / "user").mkdir()
    other = Site(tmp_path / "user").install("hermes-bus", "0.7.0", BUS)
    assert file_faults(site.install("wakebus", "0.1.0", OURS), [other]) == []


def test_the_repair_takes_the_others_out_first(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """As their going deletes what is put back; with hermes-bus-plugin, which needs them."""
    site.install("hermes-bus", "0.7.0", BUS)
    site.install("hermes_bus.plugin", "0.8.0", {})
    site.install("wakebus", "0.1.0", OURS)
    monkeypatch.syspath_prepend(str(site.packages))
    monkeypatch.setattr(next_steps, "origin", lambda: "/c")
    found, python = look_at_files(), shlex.quote(sys.executable)
    assert [one.path.name for one in found.at_stake] == ["hermes-busd"] and not found.broken
    assert found.repair == (
        f"{python} -m pip uninstall -y hermes-bus hermes-bus-plugin && "
        f"{python} -m pip install --force-reinstall --no-deps /c"
    )


def test_another_python_is_asked(tmp_path: Path) -> None:
    """It sees itself; one that says nothing has nothing wrong."""
    copy = tmp_path / "python"
    copy.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    copy.chmod(0o700)
    assert owned_files.look_at_files_of(str(copy)) == look_at_files()
    assert owned_files.look_at_files_of("/bin/false").faults == []
    assert owned_files.look_at_files_of("/no/such").faults == []
