"""What a delivery works with."""

from wakebus.adapters.base import Part
from wakebus.adapters.delivery.context import AllowAll, DeliveryContext, MemoryRecord


def test_tools_by_themselves() -> None:
    """ADP-5.13: without a host nothing stops a wait, and nothing is held back."""
    context = DeliveryContext({})
    assert context.sleep(0.0) is False
    assert isinstance(context.permit, AllowAll)


def test_caches_are_not_shared_by_accident() -> None:
    """Two hosts know nothing of each other's tokens and chats."""
    assert DeliveryContext({}).tokens is not DeliveryContext({}).tokens
    assert DeliveryContext({}).lookups is not DeliveryContext({}).lookups


def test_memory() -> None:
    """Progress for one delivery: the first try's time stays; certain failures leave nothing."""
    memory = MemoryRecord()
    memory.begin_part(0, 1.0)
    memory.begin_part(0, 2.0)
    memory.end_part(0, "uncertain")
    assert memory.parts() == {0: Part("begun", first=1.0)}
    memory.end_part(0, "not_sent")
    assert memory.parts() == {}
