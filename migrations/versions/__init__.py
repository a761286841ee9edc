"""One file a step. A file that has been released is never changed."""
