"""Why nothing was installed; `data["step"]` is what to do about it."""

from typing import ClassVar

from wakebus.broker.errors import WakebusError


class CannotInstall(WakebusError):
    """Nothing was changed. `step`: the next step, for the user."""

    code: ClassVar[str] = "install"

    def __init__(self, text: str, step: str) -> None:
        super().__init__(text, step=step)
