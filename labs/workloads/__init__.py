"""Single-file programs that a run starts on a host; each has `main(argv) -> int`."""
