"""The effects of a change beside its total."""
