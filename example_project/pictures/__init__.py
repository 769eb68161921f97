"""``python3 -m example_project.pictures``: the pictures of the example in the documentation."""
