"""What a machine is set to: pure functions of what `labs/drive/programs/audit.py` has read."""
