"""
Panes and keystrokes; knows no bus.

    panes       which pane a target names; pure      keystrokes  typing into it
"""
