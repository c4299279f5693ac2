"""What platform files are written with; pure."""
