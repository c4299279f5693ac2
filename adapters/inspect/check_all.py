"""
The credentials of some platforms, all asked at once.

Rule: it takes no longer than one platform may take to answer; who says nothing until then has
failed.
"""

import queue
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from wakebus.adapters import registry
from wakebus.adapters.delivery.adapter_calls import guarded
from wakebus.adapters.delivery.context import DeliveryContext
from wakebus.adapters.errors import DeliveryError
from wakebus.adapters.inspect.credential_check import CredentialCheck, check_credential
from wakebus.adapters.settings.redact import redact, secret_values

ANSWER_S: Final = 10.0

_Results = queue.SimpleQueue[tuple[str, CredentialCheck]]


def check_all(
    names: Sequence[str], env: Mapping[str, str]
) -> Iterator[tuple[str, CredentialCheck]]:
    """Yield what each platform says of the credential that `env` holds, as it comes."""
    from wakebus.adapters.transports.https import Https  # 0.1 s

    https = Https(5.0, ANSWER_S / 2, ANSWER_S / 2, env=lambda: env)
    context = DeliveryContext({"https": https, "http": https})
    results: _Results = queue.SimpleQueue()
    for name in names:  # daemons: a resolver that hangs holds nobody at the end
        threading.Thread(target=_ask, args=(name, env, context, results), daemon=True).start()
    waiting, deadline = dict.fromkeys(names), time.monotonic() + ANSWER_S
    while waiting:
        try:
            name, found = results.get(timeout=max(deadline - time.monotonic(), 0.0))
        except queue.Empty:
            break
        del waiting[name]
        yield name, found
    late = CredentialCheck("failed", f"no answer within {ANSWER_S:g} s")
    yield from ((name, late) for name in waiting)


def _ask(name: str, env: Mapping[str, str], context: DeliveryContext, results: _Results) -> None:
    secrets = secret_values(env)
    try:
        adapter = guarded(name, lambda: registry.load(name)(env))
    except DeliveryError as exc:
        results.put((name, CredentialCheck("failed", redact(exc.text, secrets))))
    else:
        results.put((name, check_credential(name, adapter, context, secrets)))
