"""Where the suite with the real Hermes runs: `make hermes` alone."""

import configparser
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_unit_tests_do_not_collect_it() -> None:
    """hermes-agent pins its dependencies exactly: it has an environment of its own."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "e2e_hermes" in project["tool"]["pytest"]["ini_options"]["norecursedirs"]


def test_make_hermes_runs_it() -> None:
    """Against the wheel: -P keeps the source tree out, its own pytest.ini keeps tests/ out."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = makefile.partition("\nhermes-%:")[2].partition("\n\n")[0]
    assert "-P -m pytest tests/e2e_hermes" in recipe
    both = makefile.partition("\nhermes:")[2].partition("\n\n")[0]
    for generation in ("0.19", "0.22"):
        assert f"\nHERMES_{generation} := " in makefile
        assert f"hermes-{generation}" in both
    assert "\nmake hermes\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_it_is_as_strict() -> None:
    """Warnings are errors there too."""
    found = configparser.ConfigParser()
    found.read(ROOT / "tests" / "e2e_hermes" / "pytest.ini")
    assert found["pytest"]["filterwarnings"] == "error"
    assert "--strict-markers" in found["pytest"]["addopts"]
