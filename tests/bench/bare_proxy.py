"""
A process with `zmq.proxy` and nothing else: `python -m bench.bare_proxy ADDRESS READY_FD`.

XSUB at ADDRESS.in, XPUB at ADDRESS.out, with the limits of wakebus's pipes.
"""

import os
import sys

import zmq


def main() -> None:
    """Run until killed."""
    address, ready = sys.argv[1], int(sys.argv[2])
    context = zmq.Context()
    inlet, outlet = context.socket(zmq.XSUB), context.socket(zmq.XPUB)
    inlet.setsockopt(zmq.RCVHWM, 10_000)
    outlet.setsockopt(zmq.SNDHWM, 2_000)
    inlet.bind(f"{address}.in")
    outlet.bind(f"{address}.out")
    os.write(ready, b"ready")
    os.close(ready)
    zmq.proxy(inlet, outlet)


if __name__ == "__main__":
    main()
