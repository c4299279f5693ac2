"""What several parts of the Hermes side need."""
