"""From the bytes of an image to its nearest classes, without a database on the way."""
