"""The circuit: a platform that does not answer is asked rarely, one that answers at once again."""

from wakebus.adapters.pacing.circuit_breaker import (
    ASK_S,
    FAILURE_THRESHOLD,
    FIRST_S,
    LONGEST_S,
    MAX_SILENT,
    PROBE_S,
    CircuitBreaker,
)


def tripped(*chats: str, min_chats: int = 1) -> CircuitBreaker:
    """Return a circuit after as many failures as open it, at second 0, of these chats in turn."""
    found = CircuitBreaker(min_chats=min_chats)
    for number in range(FAILURE_THRESHOLD):
        found.record_failure(f"k{number}", chats[number % len(chats)], 0.0)
    return found


def test_it_opens_after_failures_in_a_row() -> None:
    """ADP-6.18: five. (An answer in between drops it: test_admission.py.)"""
    circuit = CircuitBreaker()
    for number in range(FAILURE_THRESHOLD - 1):
        circuit.record_failure(f"k{number}", "a", 0.0)
    assert circuit.state(0.0) == "closed" and circuit.wait("x", "a", 0.0) == 0.0
    assert tripped("a").state(0.0) == "open"
    assert tripped("a").wait("x", "a", 1.0) == FIRST_S - 1.0


def test_one_chat_that_hangs_holds_no_other() -> None:
    """ADP-6.18: a platform's circuit needs failures of two chats."""
    assert tripped("a", min_chats=2).state(0.0) == "closed"
    assert tripped("a", "b", min_chats=2).state(0.0) == "open"


def test_one_probe() -> None:
    """ADP-6.18: when its time is over one goes out; the others ask again a little later."""
    circuit = tripped("a")
    assert circuit.wait("one", "a", FIRST_S) == 0.0
    circuit.admit("one", FIRST_S)
    assert circuit.state(FIRST_S) == "probing"
    assert circuit.wait("two", "a", FIRST_S) == ASK_S
    assert circuit.wait("one", "a", FIRST_S) == 0.0


def test_each_failing_probe_doubles_the_time() -> None:
    """ADP-6.18: 5, 10, 20, 40, 60, 60 s."""
    circuit, now, waits = tripped("a"), 0.0, list[float]()
    for _ in range(6):
        waits.append(circuit.wait("probe", "a", now))
        now += waits[-1]
        circuit.admit("probe", now)
        circuit.record_failure("probe", "a", now)
    assert waits == [5, 10, 20, 40, LONGEST_S, LONGEST_S]


def test_late_failures_change_nothing() -> None:
    """ADP-6.18: what began before it opened is no probe."""
    circuit = tripped("a")
    for number in range(64):
        circuit.record_failure(f"late{number}", "a", 1.0)
    assert circuit.wait("x", "a", 1.0) == FIRST_S - 1.0


def test_a_probe_that_did_not_go_out() -> None:
    """ADP-6.18: the next one may; and one that is never heard of is taken for lost."""
    circuit = tripped("a")
    circuit.admit("one", FIRST_S)
    circuit.release("another")
    assert circuit.wait("two", "a", FIRST_S) > 0
    circuit.release("one")
    assert circuit.wait("two", "a", FIRST_S) == 0.0
    circuit.admit("two", FIRST_S)
    assert circuit.wait("three", "a", FIRST_S + PROBE_S) == 0.0


def test_a_chat_that_did_not_fail_probes_first() -> None:
    """ADP-6.18: a fifth of the time before the dead ones, so that it need not wait for them."""
    circuit = tripped("dead", "dying")
    assert circuit.wait("x", "dead", 4.0) == 1.0
    assert circuit.wait("x", "living", 3.0) == 1.0
    assert circuit.wait("x", "living", 4.0) == 0.0


def test_memory() -> None:
    """ADP-6.18: of a thousand chats that fail a few are remembered."""
    circuit = CircuitBreaker()
    for number in range(1_000):
        circuit.record_failure(f"k{number}", f"c{number}", 0.0)
    assert len(circuit._silent) == MAX_SILENT
