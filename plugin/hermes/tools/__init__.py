"""What the model and the person call: tools, and `/bus`."""
