"""What the product can do, free of web and terminal."""
