"""``python -m redrive.cli``: the command `redrive`, for those who know the interpreter and not the path."""

from redrive.cli import main

if __name__ == "__main__":
    main()
