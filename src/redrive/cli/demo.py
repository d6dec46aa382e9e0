"""``redrive demo``"""


def demo() -> None:
    """Play the story."""
