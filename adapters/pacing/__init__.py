"""Whether a request may go now; pure but for one lock; knows no text."""
