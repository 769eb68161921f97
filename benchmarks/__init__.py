"""How fast counting is: each row compares two ways of doing the same, in the same rounds."""
