"""What Hermes itself says of wakebus as a plugin before it runs it, and how it loads the folder."""

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from e2e_hermes.conftest import MakeWorld
from wakebus.plugin import hermes
from wakebus.plugin.hermes.hooks import NEWER

FOLDER = Path(__file__).parents[2] / "deploy" / "hermes_plugin"
PACKAGE = Path(hermes.__file__).parent
BOTH = pytest.mark.parametrize("folder", [FOLDER, PACKAGE], ids=["folder", "entry point"])
SOME = sorted({*NEWER, "pre_command"})  # the latter with `plugins.isolation: host`
# 0.19 knows neither `plugins validate` nor a scan.
JUDGES = find_spec("hermes_cli.plugin_validate") is not None
judged = pytest.mark.skipif(not JUDGES, reason="this Hermes judges no plugin")

SCAN = """
import sys
from pathlib import Path
from tools.plugin_guard import scan_plugin
found = scan_plugin(Path(sys.argv[1]))
print(found.verdict, *sorted({one.severity for one in found.findings}))
"""

ENTRY = """
import sys
import yaml
from hermes_cli.plugin_catalog import entry_capability_summary, entry_from_mapping
found = entry_from_mapping(yaml.safe_load(sys.stdin.read()), "the template")
print(found.install_identifier, entry_capability_summary(found))
"""


def python(script: str, *words: str, home: Path, given: str = "") -> str:
    """Return what a script prints in Hermes's own Python."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", script, *words],
        env={"HERMES_HOME": str(home)},
        input=given,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@judged
@BOTH
def test_hermes_accepts_the_manifest(make_world: MakeWorld, folder: Path) -> None:
    """HERMES-1.1: `hermes plugins validate` and `doctor` find nothing wrong."""
    world = make_world()
    done = world.hermes("plugins", "validate", "--json", str(folder))
    found = json.loads(done.out[done.out.index("{") :])
    assert done.status == 0 and found["ok"], done
    # The wheel of 0.22 takes all of site-packages for its own: our imports of ourselves, too. And
    # no Hermes is there while it looks, so no hook is registered that only some of them have.
    known = ("private core imports", f"provides_hooks declares {', '.join(SOME)} but")
    assert all(one.startswith(known) for one in found["warnings"]), found
    assert found["isolation"]["host_ready"], found
    doctor = world.hermes("plugins", "doctor", str(folder))
    assert doctor.status == 0 and "OK: runtime discovery" in doctor.out, doctor
    assert "warning" not in doctor.both.lower(), doctor


@judged
@BOTH
def test_the_install_scan_says_safe(folder: Path, tmp_path: Path) -> None:
    """HERMES-1.1: nothing to confirm, nothing that is blocked (tools/plugin_guard.py of 0.22.2)."""
    copy = shutil.copytree(folder, tmp_path / "wakebus")  # a name as it has when it is installed
    verdict, *severities = python(SCAN, str(copy), home=tmp_path).split()
    assert verdict == "safe" and set(severities) <= {"low"}


@judged
def test_the_catalog_takes_the_entry(tmp_path: Path) -> None:
    """HERMES-1.1: the template of CATALOG.md, filled in, names all that plugin.yaml declares."""
    manifest = yaml.safe_load((FOLDER / "plugin.yaml").read_text())
    template = (FOLDER / "CATALOG.md").read_text().partition("```yaml\n")[2].partition("```")[0]
    filled = {"HOST/OWNER": "localhost/us", "COMMIT": "0" * 40, "MAINTAINER": "us"}
    for name, value in {**filled, "HOOKS": ", ".join(manifest["provides_hooks"])}.items():
        template = template.replace(name, value)
    said = python(ENTRY, home=tmp_path, given=template)
    assert said.startswith("https://localhost/us/wakebus#deploy/hermes_plugin "), said
    for name in (*manifest["provides_tools"], *manifest["provides_hooks"]):
        assert name in said
    assert manifest["description"] in said and manifest["requires_hermes"] in said


def test_the_folder_is_loaded(make_world: MakeWorld) -> None:
    """HERMES-1.1, HERMES-2.2: beside the entry point, too: one plugin, whose tools work."""
    world = make_world()
    shutil.copytree(FOLDER, world.root / "plugins" / "wakebus")
    listed = world.hermes("plugins", "list", "--plain", "--no-bundled")
    (line,) = (one for one in listed.out.splitlines() if "wakebus" in one)
    assert "enabled" in line and "not enabled" not in line, listed
    assert "error" not in listed.both.lower(), listed
    world.configure(tools={"tool_search": {"enabled": "off"}})
    assert "called: " in world.chat("CALL:bus_info {}")
    (request,) = (one for one in world.model.requests if one.kind == "tool")
    assert "endpoint" in json.loads(request.results[0]), request


@pytest.mark.skipif(JUDGES, reason="0.22 first fetches a Python for its plugins from the network")
def test_hermes_installs_the_folder(make_world: MakeWorld, tmp_path: Path) -> None:
    """HERMES-1.1: `hermes plugins install URL#deploy/hermes_plugin --enable`."""
    world = make_world()
    world.configure(plugins={"enabled": []})
    shutil.copytree(FOLDER, tmp_path / "clone" / "deploy" / "hermes_plugin")
    author = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
    for words in (["init", "-q"], ["add", "."], [*author, "commit", "-q", "-m", "one"]):
        subprocess.run(["git", "-C", str(tmp_path / "clone"), *words], check=True, timeout=60)
    url = f"file://{tmp_path / 'clone'}#deploy/hermes_plugin"
    done = world.hermes("plugins", "install", url, "--enable")
    assert done.status == 0 and "Plugin wakebus enabled" in done.out, done
    listed = world.hermes("plugins", "list", "--plain", "--no-bundled")
    assert "wakebus" in listed.out and "not enabled" not in listed.out, listed
