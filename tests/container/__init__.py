"""The container image, tried out: `make image-check`."""
