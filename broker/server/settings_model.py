"""
The broker's settings as pydantic has them, where nobody waits: `wakebus settings`, `hermes-busd
restart`.

Rule 1: types, bounds, defaults and words are those of broker/settings.py, and so is the reading of
file and variables. Rule 2: all faults are told, the broker tells the first; in the same words. Rule
3: no broker, courier, listener or sender imports this: pydantic takes longer than their start.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field, ValidationError, create_model
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from wakebus.broker.settings import (
    BadSettings,
    GivenSetting,
    SettingField,
    fault_of,
    fields,
    given_in_file,
    given_in_variables,
)


class LayeredSettings(BaseSettings):
    """Values come from layers that were read already; the first one that has a value counts."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True, validate_default=False)
    layers: ClassVar[Sequence[Mapping[str, Any]]] = ()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the layers, in place of pydantic's own reading of variables and files."""
        return tuple(InitSettingsSource(settings_cls, dict(layer)) for layer in cls.layers)


def layered_model(
    name: str, doc: str, definitions: Mapping[str, Any], layers: Sequence[Mapping[str, Any]]
) -> type[LayeredSettings]:
    """Return the model; called, it gives what holds by these layers, or raises ValidationError."""
    model = create_model(name, __doc__=doc, __base__=LayeredSettings, **definitions)
    model.layers = layers
    return model


def broker_model(*layers: Mapping[str, Any]) -> type[LayeredSettings]:
    """Return the model of the broker's settings."""
    doc = "bus/wakebus.toml; each also a variable, WAKEBUS_<NAME>."
    definitions = {
        field.name: (Annotated[field.kind, _about(field)], field.default)
        for field in fields().values()
    }
    return layered_model("BrokerSettings", doc, definitions, layers)


def _about(field: SettingField) -> Any:
    bounds: dict[str, Any] = {} if field.kind is bool else {"gt": 0, "le": field.most}
    return Field(
        strict=True,
        description=field.description,
        json_schema_extra={"unit": field.unit},
        **bounds,
    )


def broker_faults(file: Path, environ: Mapping[str, str]) -> list[str]:
    """Return all that is wrong in wakebus.toml and in the variables, each as it is told."""
    faults: list[str] = []
    try:
        faults += _faults_of([*given_in_file(file)])
    except BadSettings as exc:
        faults.append(exc.text)
    return faults + _faults_of([*given_in_variables(environ)])


def _faults_of(given: Sequence[GivenSetting]) -> list[str]:
    try:
        broker_model({one.key: one.value for one in given})()
    except ValidationError as exc:
        wrong = {error["loc"][0] for error in exc.errors()}
        return [fault_of(one) for one in given if one.key in wrong]
    return []


def check_broker_settings(file: Path, environ: Mapping[str, str]) -> None:
    """Raise BadSettings that tells every fault, one a line."""
    if faults := broker_faults(file, environ):
        raise BadSettings("\n".join(faults))
