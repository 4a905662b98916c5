"""Whether there is a GPU here, and what stands beside it."""
import ctypes
import subprocess
import sys


def no_gpu():
    """Why CUDA cannot be used here; empty where it can. Makes no context."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "there is no NVIDIA driver (libcuda.so.1) on this machine"
    code = driver.cuInit(0)
    if code != 0:
        return f"the driver's cuInit gave {code}"
    count = ctypes.c_int(0)
    code = driver.cuDeviceGetCount(ctypes.byref(count))
    if code != 0 or count.value < 1:
        return "the driver sees no GPU"
    return ""


def pytorch_version():
    """Of the PyTorch that this Python has; None where it has none."""
    done = subprocess.run([sys.executable, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True,
                          check=False)
    return done.stdout.strip() if done.returncode == 0 else None
