"""
The descriptors 0, 1 and 2 of a process that was started without them (`<&- >&- 2>&-`).

Rule 1: before anything else is opened: a socket or a store that became descriptor 1 would get what
is printed. Rule 2: `sys.stdin`, `sys.stdout`, `sys.stderr` stay None: nobody reads or hears there.
"""

import os


def open_missing_files() -> None:
    """Open the null device in the place of each that is closed, for children too."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:  # the lowest free one
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
