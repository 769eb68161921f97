"""The protocols of cached counters and of regions as models, explored in every order of steps."""
