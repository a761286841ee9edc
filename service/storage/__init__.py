"""What outlives a process: the folder of versions."""
