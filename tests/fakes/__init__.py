"""Real processes and raw peers for tests, with the misbehaviour that tests need."""
