"""The record room: what a run leaves behind, written whole, sealed and named by its inputs."""
