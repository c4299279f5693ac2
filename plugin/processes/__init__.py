"""Child processes and their end; knows no message but its environment."""
