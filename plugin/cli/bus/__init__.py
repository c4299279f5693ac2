"""Commands about messages, events and endpoints: one verb, one file."""
