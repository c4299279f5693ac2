"""What happens to a message that has arrived."""
