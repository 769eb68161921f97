"""Regions with a server each that count while they are killed, cut off and put back."""
