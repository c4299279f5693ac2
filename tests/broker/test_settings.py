"""The broker's settings."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebus.broker.settings import BadSettings, Settings, fields, load


def written(folder: Path, text: str) -> Path:
    """Return a settings file with this text."""
    file = folder / "wakebus.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_without_file_and_variables(tmp_path: Path) -> None:
    """The defaults."""
    assert load(tmp_path / "wakebus.toml", {}) == Settings()


def test_variables_go_over_the_file(tmp_path: Path) -> None:
    """PROTOCOL-1.7: in this order; others are not looked at."""
    file = written(tmp_path, "attempts = 3\nstale_s = 4\nservices = false")
    found = load(file, {"WAKEBUS_ATTEMPTS": "2", "WAKEBUS_TOKEN": "x"})
    assert (found.attempts, found.stale_s, found.services) == (2, 4.0, False)
    assert isinstance(found.stale_s, float)


def test_a_whole_number_may_be_written_with_a_point(tmp_path: Path) -> None:
    """It is the same number."""
    found = load(written(tmp_path, "attempts = 3.0"), {"WAKEBUS_LOG_FILES": "2.0"})
    assert (found.attempts, found.log_files) == (3, 2) and isinstance(found.attempts, int)


def test_every_setting_says_what_it_is() -> None:
    """Unit, bounds and words: the reference and the model are made from them."""
    for name, field in fields().items():
        assert field.name == name and field.description and type(field.default) is field.kind
        assert field.kind is bool or (field.unit and 0 < field.default <= field.most)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("atempts = 3", "atempts.*did you mean attempts"),
        ("attempts = 0", "attempts.*above 0"),
        ("attempts = -1", "attempts"),
        ("attempts = 2.5", "attempts.*whole"),
        ("attempts = true", "attempts"),
        ('attempts = "5"', "attempts"),
        ("attempts = inf", "attempts"),
        ("stale_s = nan", "stale_s"),
        ("stale_s = inf", "stale_s"),
        ("services = 1", "services.*true or false"),
        ("store_bytes = 1e16", "store_bytes: at most 1000000000000000, not 10000000000000000"),
        (f"stale_s = 1{'0' * 400}", "stale_s: at most"),
        ("log_files = 3\n\n 'attempts' = 0", r"wakebus\.toml:3: attempts: a number above 0, not 0"),
        ("log_files = 3\n[atempts]\n", r"wakebus\.toml:2: atempts: no such setting; did you mean"),
        ("[broker]\nattempts = 3", "broker.*no such setting"),
        ("attempts = ", r"wakebus\.toml"),
        ("a = 1\na = 2", r"wakebus\.toml"),
    ],
)
def test_a_wrong_file_is_named_with_its_key(tmp_path: Path, text: str, says: str) -> None:
    """PROTOCOL-1.7: file, key, and what is expected."""
    with pytest.raises(BadSettings, match=says) as caught:
        load(written(tmp_path, text), {})
    assert "wakebus.toml" in str(caught.value)


@pytest.mark.parametrize("name", [one.name for one in fields().values() if one.kind is not bool])
def test_so_much_that_it_is_no_limit(tmp_path: Path, name: str) -> None:
    """PROTOCOL-1.7: a large number is no mistake."""
    assert getattr(load(written(tmp_path, f"{name} = 1_000_000_000_000"), {}), name) == 10**12


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    """PROTOCOL-1.7: not UTF-8, or not readable at all."""
    (tmp_path / "wakebus.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(BadSettings, match=r"wakebus\.toml"):
        load(tmp_path / "wakebus.toml", {})
    with pytest.raises(BadSettings, match=str(tmp_path)):
        load(tmp_path, {})


@pytest.mark.parametrize("value", ["", "x", "[]", "1\nattempts = 2", "nan", "yes", "\udcff"])
def test_a_wrong_variable_is_named(tmp_path: Path, value: str) -> None:
    """PROTOCOL-1.7: the error names the variable."""
    with pytest.raises(BadSettings, match="WAKEBUS_SERVICES"):
        load(tmp_path / "none", {"WAKEBUS_SERVICES": value})


@given(st.sampled_from(sorted(fields())), st.text(st.characters(exclude_characters="\0")))
def test_any_variable_is_taken_or_named(field: str, value: str) -> None:
    """PROTOCOL-1.7: never anything else."""
    try:
        found = load(Path("/nonexistent/wakebus.toml"), {f"WAKEBUS_{field.upper()}": value})
        assert getattr(found, field) is False or getattr(found, field) > 0
    except BadSettings as exc:
        assert f"WAKEBUS_{field.upper()}" in str(exc)
