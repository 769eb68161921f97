"""The protocol of cached counters as a model, explored in every order of its steps."""
