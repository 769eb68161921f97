"""The site that the pages speak of: a blog and a shop. The blocks of Python are run in it."""
