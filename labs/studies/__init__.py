"""Studies: the runs that the parameters describe, performed or reused, and their results."""
