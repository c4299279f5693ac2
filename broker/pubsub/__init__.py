"""A client's topic plane: publisher, subscriptions, gaps; knows no request."""
