"""What performs a request: HTTPS, Apprise, the console's files."""
