"""
Every setting in one model: the broker's and the courier's rates, with what holds and where it is
from.

Rule 1: read as those read it who use it: broker/settings.py, adapters/settings. Rule 2: all faults
are found, not only the first. Rule 3: no credential is among them, and no value of a variable that
is wrong is shown but the broker's own.
"""

import os
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, Field, ValidationError, create_model

from wakebus.adapters.errors import DeliveryError
from wakebus.adapters.inspect.proxy_settings import proxy_faults
from wakebus.adapters.inspect.rate_settings import (
    RateSetting,
    check_rate,
    near_rate,
    rate_settings,
)
from wakebus.adapters.settings.environment import Environment, Values
from wakebus.broker.paths import bus_dir
from wakebus.broker.server.settings_model import (
    LayeredSettings,
    broker_faults,
    broker_model,
    layered_model,
)
from wakebus.broker.settings import (
    BadSettings,
    SettingField,
    fields,
    given_in_file,
    given_in_variables,
)

Group = Literal["broker", "courier"]


class SettingRow(NamedTuple):
    """One setting in force; `source`: default, wakebus.toml, .env, or the name of a variable."""

    group: Group
    name: str
    value: bool | int | float | str
    unit: str
    default: bool | int | float | str
    source: str
    description: str


class SettingsInForce:
    """What holds in this shell: a broker that runs holds what it read when it was started."""

    def __init__(self) -> None:
        self.file = bus_dir() / "wakebus.toml"
        self.environment = Environment()
        self.rates = {rate.name: rate for rate in rate_settings()}

    def faults(self) -> list[str]:
        """Return all that is wrong, each with its place; [] where nothing is."""
        found = broker_faults(self.file, os.environ)
        try:
            env = self.environment()
        except DeliveryError as exc:
            return [*found, exc.text]
        try:
            courier_model(self.rates, *self._layers(env))()
        except ValidationError as exc:
            for error in exc.errors():
                name = str(error["loc"][0])
                found.append(f"{self._place(name, env)}: {error['ctx']['error']}")
        for name, fault in proxy_faults(env):
            found.append(f"{self._place(name, env)}: {fault}")
        for name in sorted(set(env) - env.inherited):
            if near := near_rate(name, self.rates):
                found.append(f"{self._place(name, env)}: no such setting; did you mean {near}?")
        return found

    def rows(self) -> list[SettingRow]:
        """Return every setting. Raises BadSettings with all faults, one a line."""
        if faults := self.faults():
            raise BadSettings("\n".join(faults))
        return [*self._broker_rows(), *self._courier_rows()]

    def _broker_rows(self) -> list[SettingRow]:
        variables = {one.key: one.value for one in given_in_variables(os.environ)}
        in_file = {one.key: one.value for one in given_in_file(self.file)}
        values = broker_model(variables, in_file)().model_dump()
        sources = dict.fromkeys(in_file, "wakebus.toml")
        sources |= {key: fields()[key].variable for key in variables}
        return _rows("broker", fields().values(), values, sources)

    def _courier_rows(self) -> list[SettingRow]:
        in_file, inherited = self._layers(self.environment())
        values = courier_model(self.rates, in_file, inherited)().model_dump()
        sources = dict.fromkeys(inherited, "environment") | dict.fromkeys(in_file, ".env")
        return _rows("courier", self.rates.values(), values, sources)

    def _layers(self, env: Values) -> tuple[dict[str, str], dict[str, str]]:
        """Return the rates that `.env` says, and those of the process's environment alone."""
        said = {name: env[name].strip() for name in self.rates if env.get(name, "").strip()}
        in_file = {name: text for name, text in said.items() if name not in env.inherited}
        return in_file, {name: text for name, text in said.items() if name in env.inherited}

    def _place(self, name: str, env: Values) -> str:
        if name in env.inherited:
            return name
        file = self.environment.file
        line = self.environment.line_of(name)
        return f"{file}:{line}: {name}" if line else f"{file}: {name}"


def _rows(
    group: Group,
    settings: Iterable[SettingField | RateSetting],
    values: Mapping[str, Any],
    sources: Mapping[str, str],
) -> list[SettingRow]:
    return [
        SettingRow(
            group,
            one.name,
            values[one.name],
            one.unit,
            one.default,
            sources.get(one.name, "default"),
            one.description,
        )
        for one in settings
    ]


def courier_model(
    rates: Mapping[str, RateSetting], *layers: Mapping[str, str]
) -> type[LayeredSettings]:
    """Return the model of the courier's rates."""
    doc = "$HERMES_HOME/.env, or variables: COUNT/SECONDS, as 20/60, or off."
    definitions = {
        rate.name: (Annotated[str, AfterValidator(check_rate), _about(rate)], rate.default)
        for rate in rates.values()
    }
    return layered_model("CourierSettings", doc, definitions, layers)


def _about(rate: RateSetting) -> Any:
    more: dict[str, Any] = {"unit": rate.unit, "examples": ["20/60", "off"]}
    return Field(description=rate.description, json_schema_extra=more)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of all settings, by who reads them."""
    courier = courier_model({rate.name: rate for rate in rate_settings()})
    both: dict[str, Any] = {"broker": (broker_model(), ...), "courier": (courier, ...)}
    schema: dict[str, Any] = create_model("WakebusSettings", **both).model_json_schema()
    return schema
