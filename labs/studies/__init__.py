"""A study: the runs that parameters ask for, made or found, and what they show together."""
