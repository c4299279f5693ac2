"""
Whose turn is next in a session, and how many it may begin.

    session_line  what waits for a turn of one session
    flood_limit   how many it may begin in a window
"""
