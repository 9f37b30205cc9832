"""What a machine is set to: pure functions of what `labs/drive/machine_audit.py` has read."""
