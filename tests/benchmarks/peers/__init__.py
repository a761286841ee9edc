"""What others serve the same net with, one file each. They run in `.venv-peers`, apart from the packages of zstci."""
