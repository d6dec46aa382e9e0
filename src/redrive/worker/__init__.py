"""The worker: claims messages, runs their handlers, reports how they ended."""
