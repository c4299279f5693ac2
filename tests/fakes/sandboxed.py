"""
Run a command as a sandbox does that lets nobody at Unix sockets: `sandboxed.py CALL COMMAND...`.

CALL: `connect` is denied, as Codex does it, or `socket`, as Claude does it (seccomp(2), Linux).
"""

import ctypes
import os
import platform
import struct
import sys
from typing import Final

NUMBERS: Final = {
    "x86_64": {"connect": 42, "socket": 41},
    "aarch64": {"connect": 203, "socket": 198},
}
PR_SET_NO_NEW_PRIVS: Final = 38
PR_SET_SECCOMP, FILTER = 22, 2
LOAD, IS_EQUAL, RETURN = 0x20, 0x15, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K
ALLOW, EPERM = 0x7FFF0000, 0x00050001


def deny(call: str) -> None:
    """Deny `call` to this process and all that it starts."""
    rules = [
        (LOAD, 0, 0, 0),  # the number of the system call
        (IS_EQUAL, 0, 1, NUMBERS[platform.machine()][call]),
        (RETURN, 0, 0, EPERM),
        (RETURN, 0, 0, ALLOW),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
    program = struct.pack("HxxxxxxP", len(rules), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    for words in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, FILTER, program, 0, 0)):
        if libc.prctl(*words) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    deny(sys.argv[1])
    os.execvp(sys.argv[2], sys.argv[2:])
