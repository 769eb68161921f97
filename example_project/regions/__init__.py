"""Three regions that count the same visits, and the lines between them."""
