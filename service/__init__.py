"""The product around the library: an API that answers from one version and swaps to the next as one unit."""
