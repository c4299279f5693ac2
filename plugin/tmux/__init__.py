"""
Panes and keystrokes; knows no bus.

    panes       which pane a target names; pure      keystrokes  typing into it
    occupants   what a pane holds that must not get a text; pure
"""
