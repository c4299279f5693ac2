"""One file for each group of requests: check, decide, reply; nothing is kept here."""
