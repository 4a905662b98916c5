"""Which failures mean that a plan needs more memory than there is."""
# As PyTorch (its allocators of GPUs and CPUs), oneDNN, cuBLAS, cuDNN and C++ say it. PyTorch's own exception of GPUs is a
# RuntimeError that says the first of them; it is not named here, so that PyTorch need not be loaded.
_SIGNS = ("out of memory", "can't allocate memory", "bad_alloc", "could not create a memory", "ALLOC_FAILED")


def is_out_of_memory(error):
    """Did an allocation fail, here or in a library?"""
    text = str(error)
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and any(sign in text for sign in _SIGNS))
