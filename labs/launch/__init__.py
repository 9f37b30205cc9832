"""From a lab and its parameters to the runs that are missing."""
