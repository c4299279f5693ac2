"""What people ask beforehand: set-up, dry run, credential check."""
