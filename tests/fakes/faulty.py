"""A broker whose disk, clocks and limits a test spoils: tests/faults/broker_with_faults.py."""

from pathlib import Path

from fakes.broker import Broker

SCRIPT = Path(__file__).parents[1] / "faults" / "broker_with_faults.py"


class FaultyBroker(Broker):
    """`fault(wall=86400)` says it, `mend("wall")` takes it back."""

    program: tuple[str, ...] = (str(SCRIPT),)

    def __init__(self, root: Path, **settings: object) -> None:
        super().__init__(root, **settings)
        self._faults = root / "faults"
        self._faults.mkdir()

    def fault(self, **faults: object) -> "FaultyBroker":
        """Let these faults be, from now on."""
        for name, value in faults.items():
            draft = self._faults / f".{name}"
            draft.write_text(str(value))
            draft.rename(self._faults / name)
        return self

    def mend(self, name: str) -> None:
        """End a fault."""
        (self._faults / name).unlink()

    def stalled(self) -> bool:
        """Whether a commit has met a stall."""
        return (self._faults / "stalled").exists()

    def looks(self) -> int:
        """Return how often the broker has looked for what is too old."""
        file = self._faults / "looks"
        return file.stat().st_size if file.exists() else 0
