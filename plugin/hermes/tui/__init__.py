"""
The server of the Ink TUI and the desktop as a host of turns; knows no terminal and no gateway.

    host  turns in the session that is named     session_choice  which session that is
    tui_output  prints in a session
"""
