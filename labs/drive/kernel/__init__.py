"""The kernels of the virtual testbed: build, store, find, check and boot them."""
