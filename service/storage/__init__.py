"""What outlives a process: rows in a database, files in a folder or a bucket."""
