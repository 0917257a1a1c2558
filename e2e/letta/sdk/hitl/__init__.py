"""What really happens when a tool call waits for an answer: cases to record."""
