"""The courier service: its endpoint, its record on disk, what goes back to the broker."""
