"""A gateway of Hermes as a host of turns; knows no terminal."""
