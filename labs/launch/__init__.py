"""The launch room: from a lab and its parameters to the runs that are missing."""
