"""
Power cuts, simulated: what a broker promised stands on every disk that a cut may leave.

`traced.py` runs the real broker and records each of its file operations, and what it sends, in one
order; `disk.py` is what a cut at any of these moments may leave; `history.py` is what was promised
by then. `test_powercut.py` opens such disks with today's code. Not simulated: drives that lie about
what they have written, and sectors that turn to garbage.

Each moment is read in the hard way: a write counts from its beginning, an fsync from its end, an
answer from the beginning of its sending.
"""
