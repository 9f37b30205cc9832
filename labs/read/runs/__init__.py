"""Run folders: opened, listed, compared, packed; nothing here needs the host of a run."""
