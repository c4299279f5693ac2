"""A client's topic plane: publisher, subscriptions, gaps; knows no message and no name."""
