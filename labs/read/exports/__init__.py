"""Runs in the formats of other programs: tables that describe their columns, and pcapng."""
