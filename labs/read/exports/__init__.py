"""Runs in the formats of other programs: Flent, pcapng, and tables that describe their columns."""
