# Copied to .venv/etc/ipython: kernels of this environment log errors only. At each start ipykernel
# otherwise warns that its connection, which does not leave this machine, is not encrypted.
c = get_config()  # noqa: F821
c.IPKernelApp.log_level = "ERROR"
