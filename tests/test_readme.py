"""The front door tells the truth: settings and commands that README.md names exist."""

import re
from pathlib import Path

import pytest

from wakebus.broker.settings import Settings
from wakebus.plugin.cli.main import VERBS

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", Settings._fields)
def test_every_setting_is_named_with_its_default(name: str) -> None:
    """`name` 10, or in MiB."""
    default = Settings._field_defaults[name]
    shown = re.search(rf"`{name}` (\w+(?: MiB)?)", README)
    assert shown, f"README.md does not name {name}"
    text = shown[1]
    if text.endswith("MiB"):
        assert int(text.split()[0]) << 20 == default
    else:
        assert text == str(default).lower().removesuffix(".0")


def test_every_verb_it_shows_exists() -> None:
    """`wakebus VERB` in a line of shell."""
    used = set(re.findall(r"^wakebus (\w+)", README, re.MULTILINE))
    assert used and used <= set(VERBS)


def test_every_document_it_links_to_exists() -> None:
    """Relative links."""
    root = Path(__file__).parents[1]
    for link in re.findall(r"\]\(([^)h][^)]*)\)", README):
        assert (root / link).exists(), link
