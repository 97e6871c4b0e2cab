"""The CPU implementation: C kernels (`kernel/`) behind ctypes, and how they are built."""
