"""Programs that watch a host while an experiment runs, each a single file with main(argv)."""
