"""The broker's settings as pydantic has them: the same as the broker's own, field by field."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebus.broker.server.settings_model import (
    broker_faults,
    broker_model,
    check_broker_settings,
)
from wakebus.broker.settings import (
    BadSettings,
    Settings,
    fields,
    given_in_file,
    given_in_variables,
    load,
)

NONE = Path("/nonexistent/wakebus.toml")


def test_both_have_the_same_fields() -> None:
    """Names, types, bounds, defaults, words and units, as each writes its own JSON Schema."""
    ours = msgspec.json.schema(Settings)["$defs"]["Settings"]["properties"]
    theirs = broker_model().model_json_schema()["properties"]
    assert list(ours) == list(theirs) == list(fields())
    units = {field.name: field.unit for field in fields().values()}
    for name, one in theirs.items():
        del one["title"]
        assert one.pop("unit") == units[name]
        assert one == ours[name]


def both(environ: dict[str, str], file: Path = NONE) -> tuple[Any, Any]:
    """Return what the broker and the model say: their values, or the first fault."""
    faults = broker_faults(file, environ)
    try:
        ours: Any = msgspec.structs.asdict(load(file, environ))
    except BadSettings as exc:
        return exc.text, faults[0]
    assert not faults
    layers = given_in_variables(environ), given_in_file(file)
    model = broker_model(*({one.key: one.value for one in layer} for layer in layers))
    return ours, model().model_dump()


VALUES = st.one_of(
    st.integers(-2, 3).map(str),
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from(["true", "false", "", "x", '"5"', "[]", "1e9", "1e15", "1e300", "2.0", "nan"]),
    st.text(st.characters(exclude_characters="\0"), max_size=5),
)


@given(st.dictionaries(st.sampled_from(sorted(fields())), VALUES, max_size=3))
def test_both_take_and_refuse_the_same(values: dict[str, str]) -> None:
    """PROTOCOL-1.7: in the same words."""
    ours, theirs = both({f"WAKEBUS_{name.upper()}": text for name, text in values.items()})
    if isinstance(ours, str) or len(values) < 2:
        assert ours == theirs
    assert type(ours) is type(theirs)


def test_variables_go_over_the_file(tmp_path: Path) -> None:
    """PROTOCOL-1.7: also in the model."""
    (file := tmp_path / "wakebus.toml").write_text("attempts = 3\nstale_s = 4")
    ours, theirs = both({"WAKEBUS_ATTEMPTS": "2"}, file)
    assert ours == theirs and (theirs["attempts"], theirs["stale_s"]) == (2, 4.0)


def test_all_faults_are_told(tmp_path: Path) -> None:
    """One a line, with file and line, or variable; the broker tells the first of them."""
    (file := tmp_path / "wakebus.toml").write_text("atempts = 3\nlog_files = 0\n")
    environ = {"WAKEBUS_SERVICES": "1", "WAKEBUS_TOKEN": "x"}
    told = [
        f"{file}:1: atempts: no such setting; did you mean attempts?",
        f"{file}:2: log_files: a number above 0, not 0",
        "WAKEBUS_SERVICES: true or false, not 1",
    ]
    with pytest.raises(BadSettings) as caught:
        check_broker_settings(file, environ)
    assert caught.value.text.splitlines() == told == broker_faults(file, environ)
    with pytest.raises(BadSettings) as caught:
        load(file, environ)
    assert caught.value.text == told[0]


def test_a_file_that_is_no_toml(tmp_path: Path) -> None:
    """The variables are looked at all the same."""
    (file := tmp_path / "wakebus.toml").write_text("attempts = \n")
    first, second = broker_faults(file, {"WAKEBUS_ATTEMPTS": "0"})
    assert first.startswith(f"{file}: ") and "line 1" in first
    assert second == "WAKEBUS_ATTEMPTS: a number above 0, not 0"


@pytest.mark.parametrize(
    "module",
    [
        "wakebus.broker.server.cli",
        "wakebus.broker.server.process",
        "wakebus.broker.server.supervisor",
        "wakebus.adapters.courier.service",
        "wakebus.plugin.cli.bus.listen",
        "wakebus.plugin.cli.notify",
        "wakebus.plugin.hermes.runtime",
    ],
)
def test_who_waits_loads_no_pydantic(module: str) -> None:
    """It takes longer than a whole start; neither does python-dotenv before a file is read."""
    code = f"import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert not {"pydantic", "pydantic_settings", "dotenv"} & set(json.loads(done.stdout))
