"""
What Hermes's `config.yaml` says of wakebus, and the text in which it says what it shall.

Rule 1: pure. Rule 2: an edit is made in the user's own text and then read as Hermes reads it (YAML
1.1, PyYAML): unless it means exactly the old meaning plus the change, it is refused. Rule 3: the
keys are Hermes's own: `plugins.enabled`, `plugins.disabled` (hermes_cli/plugins.py:243, 0.19.0) and
`plugins.entries.wakebus.allow_gateway_injection`, which newer Hermes reads for
`ctx.inject_message(session_key=)`.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import yaml

from wakebus.plugin.install import yamltext
from wakebus.plugin.install.errors import CannotInstall

PLUGIN: Final = "wakebus"
ENABLED: Final = ("plugins", "enabled")
DISABLED: Final = ("plugins", "disabled")
GRANT: Final = ("plugins", "entries", PLUGIN, "allow_gateway_injection")


class State(NamedTuple):
    """`enabled`, `disabled`: wakebus stands in that list. `grant`: None if the key is not there."""

    enabled: bool = False
    disabled: bool = False
    grant: bool | None = None


def read(text: str, name: str) -> State:
    """Return what `text` says; `name` is the file's, for errors. Raises CannotInstall."""
    return _state(_load(text, name), name)


def change(text: str, wanted: State, name: str) -> str:
    """Return `text` so that it says `wanted`. Raises CannotInstall, and then names the way out."""
    has = read(text, name)
    for edit in _edits(has, wanted):
        text = edit(text, name)
    return text


_Edit = Callable[[str, str], str]


def _edits(has: State, wanted: State) -> list[_Edit]:
    found: list[_Edit] = []
    if has.disabled and not wanted.disabled:
        found.append(_drop_item(DISABLED))
    if has.enabled != wanted.enabled:
        found.append(_add_item(ENABLED) if wanted.enabled else _drop_item(ENABLED))
    if has.grant != wanted.grant:
        found.append(_drop_grant if wanted.grant is None else _grant(wanted.grant))
    return found


def _add_item(path: yamltext.Path) -> _Edit:
    def meant(data: dict[str, Any]) -> None:
        _list(data, path).insert(0, PLUGIN)

    return lambda text, name: _edited(
        text, name, meant, lambda t: yamltext.add_item(t, path, PLUGIN)
    )


def _drop_item(path: yamltext.Path) -> _Edit:
    def meant(data: dict[str, Any]) -> None:
        found = _list(data, path)
        found.remove(PLUGIN)
        if not found:
            _drop(data, path)

    return lambda text, name: _edited(
        text, name, meant, lambda t: yamltext.drop_item(t, path, PLUGIN)
    )


def _grant(value: bool) -> _Edit:
    def meant(data: dict[str, Any]) -> None:
        _mapping(data, GRANT[:-1])[GRANT[-1]] = value

    word = str(value).lower()
    return lambda text, name: _edited(text, name, meant, lambda t: yamltext.put(t, GRANT, word))


def _drop_grant(text: str, name: str) -> str:
    def meant(data: dict[str, Any]) -> None:
        _drop(data, GRANT)

    return _edited(text, name, meant, lambda t: yamltext.drop_key(t, GRANT))


def _edited(
    text: str, name: str, meant: Callable[[dict[str, Any]], None], edit: Callable[[str], str]
) -> str:
    """Return the edited text if it means what `meant` makes of the old meaning."""
    wanted = _load(text, name)
    meant(wanted)
    try:
        edited = edit(text)
        if _load(edited, name) == wanted:
            return edited
    except (yamltext.CannotEdit, CannotInstall):
        pass
    raise CannotInstall(
        f"{name} is laid out so that wakebus cannot edit it without touching other things",
        f"Write it yourself: {_by_hand(wanted)}",
    )


def _by_hand(wanted: dict[str, Any]) -> str:
    return yaml.safe_dump({"plugins": wanted.get("plugins", {})}, default_flow_style=True).strip()


def _load(text: str, name: str) -> dict[str, Any]:
    """Return the meaning of `text` as fresh, unshared values. Raises CannotInstall."""
    try:
        data = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as exc:
        raise CannotInstall(
            f"{name}{_line(exc)}: no YAML: {_problem(exc)}",
            "Repair this line; nothing was changed.",
        ) from None
    data = {} if data is None else data
    if not isinstance(data, dict):
        raise _wrong(name, "the whole file", "a mapping", data)
    return {key: _plain(value) for key, value in data.items()}


def _plain(value: Any) -> Any:
    """Return a copy in which no two places are one object, as aliases make them."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _line(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    return f":{mark.line + 1}" if mark is not None else ""


def _problem(error: Exception) -> str:
    return str(getattr(error, "problem", None) or error).splitlines()[0][:200]


def _state(data: dict[str, Any], name: str) -> State:
    plugins = _kind(data.get("plugins"), dict, "plugins", name)
    entries = _kind(plugins.get("entries"), dict, "plugins.entries", name)
    entry = _kind(entries.get(PLUGIN), dict, f"plugins.entries.{PLUGIN}", name)
    enabled = _kind(plugins.get("enabled"), list, "plugins.enabled", name)
    disabled = _kind(plugins.get("disabled"), list, "plugins.disabled", name)
    grant = entry.get(GRANT[-1])
    return State(PLUGIN in enabled, PLUGIN in disabled, None if grant is None else grant is True)


def _kind(value: Any, kind: type[Any], key: str, name: str) -> Any:
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise _wrong(name, key, "a list" if kind is list else "a mapping", value)
    return value


def _wrong(name: str, key: str, wanted: str, value: Any) -> CannotInstall:
    got = type(value).__name__
    return CannotInstall(
        f"{name}: {key}: {wanted} is needed, this is {got}", "Repair it; nothing was changed."
    )


def _mapping(data: dict[str, Any], path: yamltext.Path) -> dict[str, Any]:
    """Return the mapping at `path`, made where there is none."""
    for name in path:
        if data.get(name) is None:
            data[name] = {}
        data = data[name]
    return data


def _list(data: dict[str, Any], path: yamltext.Path) -> list[Any]:
    above = _mapping(data, path[:-1])
    if above.get(path[-1]) is None:
        above[path[-1]] = []
    found: list[Any] = above[path[-1]]
    return found


def _drop(data: dict[str, Any], path: yamltext.Path) -> None:
    """Take out the key at `path`, and the mappings that this leaves empty."""
    above = _mapping(data, path[:-1])
    above.pop(path[-1], None)
    if not above and len(path) > 1:
        _drop(data, path[:-1])
