"""An interactive `hermes` as a host of turns; knows no gateway."""
