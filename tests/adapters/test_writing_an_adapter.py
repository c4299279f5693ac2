"""The package on WRITING_AN_ADAPTER.md, taken from the page, used as its reader would."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.desk import Desk
from fakes.webhook_receiver import receiving
from wakebus import adapters

PAGE = Path(adapters.__file__).with_name("WRITING_AN_ADAPTER.md").read_text()
FILE = re.compile(r"^`(wakebus-gotify/[\w./-]+)`\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HERE = Path(__file__).parent
TOKEN = "A1b2C3d4E5f6G7h"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The page's package in a folder of its own, with what an installer leaves beside it."""
    folder = tmp_path_factory.mktemp("site")
    for name, text in FILE.findall(PAGE):
        file = folder / name.removeprefix("wakebus-gotify/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    record = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    record.mkdir()
    head = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (record / "METADATA").write_text(head)
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    (record / "entry_points.txt").write_text("\n".join(lines))
    yield folder


def test_it_sends_by_the_real_courier(installed: Path) -> None:
    """ADP-1.1: a package outside the tree, found by its entry point, is an adapter as any other."""
    with receiving() as receiver:
        receiver.answers = [(200, {}, b'{"id": 25, "appid": 5, "message": "Hello"}')]
        desk = Desk(services=True)
        desk.env["PYTHONPATH"] = str(installed)
        settings = f"GOTIFY_URL={receiver.url}\nGOTIFY_TOKEN_OPS={TOKEN}\n"
        (desk.root / ".env").write_text(settings)
        desk.start()
        try:
            shown = desk.wakebus("channels", "gotify").out
            assert "ready" in shown and TOKEN not in shown
            dry = desk.wakebus("send", "--dry-run", "gotify:ops", "**Hello**").out
            assert '"message":"Hello"' in dry and TOKEN not in dry and not receiver.got
            done = desk.wakebus("send", "gotify:ops", "**Hello**", "--from", "ci")
            assert (done.status, done.out) == (0, "sent to gotify:ops (id 25)\n"), done
            (got,) = receiver.got
            assert (got.path, got.headers["x-gotify-key"]) == ("/message", TOKEN)
            assert got.json["message"] == "Hello"
            receiver.answers = [(401, {}, b'{"errorCode": 401, "errorDescription": "no"}')]
            done = desk.wakebus("send", "gotify:ops", "Hello", "--from", "ci")
            assert done.status == 1 and "GOTIFY_TOKEN_<NAME>" in done.err
            done = desk.wakebus("send", "gotify:nobody", "Hello", "--from", "ci")
            assert "GOTIFY_TOKEN_NOBODY" in done.err and "GOTIFY_TOKEN_OPS" in done.err
        finally:
            desk.close()


def test_it_passes_the_contract(installed: Path) -> None:
    """ADP-4.5: by the very command that the page names."""
    (command,) = re.findall(r"^WAKEBUS_ANSWERS=\S+ \S+pytest (.*)$", PAGE, re.MULTILINE)
    assert command == "-k gotify tests/adapters"
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(installed), os.environ.get("PYTHONPATH", ""))),
        "WAKEBUS_ANSWERS": str(installed / "answers"),
    }
    files = [HERE / "test_contract.py", HERE / "test_contract_abilities.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "gotify", *files],
        cwd=HERE.parents[1],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed and int(passed[1]) > 40, done.stdout[-500:]


def test_the_page_and_the_package_agree() -> None:
    """What it names is there; no line of its code is longer than a page is wide."""
    names = [name for name, _ in FILE.findall(PAGE)]
    assert len(names) == 6 and len(set(names)) == 6
    code = next(text for name, text in FILE.findall(PAGE) if name.endswith(".py"))
    assert max(map(len, code.splitlines())) <= 100
