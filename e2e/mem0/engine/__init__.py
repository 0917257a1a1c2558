"""The real Mem0 engine behind both of Mem0's HTTP dialects, for end-to-end tests."""
