"""Checks of the files that a person writes: rules and settings."""

import os
from collections.abc import Iterator

from wakebus.plugin.cli.doctor.finding import Finding
from wakebus.plugin.cli.setup.settings_model import SettingsInForce
from wakebus.plugin.rules import load
from wakebus.plugin.rules.errors import RulesError


def check_rules() -> Iterator[Finding]:
    """The rules file would be loaded, as `wakebus rules check` says it."""
    path = load.default_path(os.environ)
    if not path.exists():
        yield Finding("ok", f"{path} does not exist: the default rules are in force")
        return
    try:
        rules = load.load(path)
    except RulesError as exc:
        yield from (
            Finding("wrong", str(one), "Mend it, then: wakebus rules check") for one in exc.problems
        )
        return
    yield Finding("ok", f"{path}: {len(rules.callbacks)} rules")
    yield from (Finding("note", str(one), "wakebus rules check") for one in rules.warnings)


def check_settings() -> Iterator[Finding]:
    """Every setting is one, and holds a value that it may, as `wakebus settings check` says it."""
    settings = SettingsInForce()
    faults = settings.faults()
    yield from (Finding("wrong", fault, "Mend it, then: hermes-busd restart") for fault in faults)
    if not faults:
        yield Finding("ok", f"{settings.file}, {settings.environment.file}: no fault")
