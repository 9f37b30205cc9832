"""Formulas, per kernel version where kernels differ; each names the kernel function it is from."""
