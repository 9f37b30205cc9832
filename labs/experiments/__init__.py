"""The experiments: one module a lab, written once against the contract of testbeds."""
