"""
A client's topic plane: publisher, subscriptions, gaps; knows no message and no name.

    topic_plane  what a client has of all this      publisher     one socket under a lock
    subscriber   sockets and the handlers' thread   subscription  what one hands out and has missed
    sequences    how many events are missing
"""
