"""Panes and keystrokes; knows no bus."""
