"""JSON values of every shape, for hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

text = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(text, inner), max_leaves=20
)


def shape(value: Any) -> Any:
    """To compare by: tells 1, 1.0 and True apart, which == does not."""
    if isinstance(value, dict):
        return {name: shape(item) for name, item in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value]
    return type(value).__name__, value
