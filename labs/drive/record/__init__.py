"""What a run leaves, written whole, sealed and named by its inputs."""
