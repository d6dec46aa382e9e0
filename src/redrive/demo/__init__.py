"""The demo: a story of good jobs and bad ones, played by real worker processes, every count of it checked."""
