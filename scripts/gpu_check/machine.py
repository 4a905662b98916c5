"""Whether there is a GPU here, and what stands beside it."""
import ctypes
import os
import pathlib
import shutil
import subprocess
import sys


def no_gpu(open_library=ctypes.CDLL):
    """Why CUDA cannot be used here; empty where it can. Makes no context."""
    try:
        driver = open_library("libcuda.so.1")
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


def with_this_python(environment, executable=sys.executable):
    """The environment in which `python3` is the Python that runs this: the one that was asked whether it has PyTorch."""
    folder = pathlib.Path(executable).parent
    if not (folder / "python3").exists():
        return dict(environment)
    return {**environment, "PATH": os.pathsep.join((str(folder), environment.get("PATH", os.defpath)))}


def with_packages(environment, folder):
    """The environment in which Python finds what was brought in this folder, if it is there."""
    if not pathlib.Path(folder).is_dir():
        return environment
    paths = [str(folder), *filter(None, [environment.get("PYTHONPATH")])]
    return {**environment, "PYTHONPATH": os.pathsep.join(paths)}


def pytorch_version(environment=None):
    """Of the PyTorch that this Python has; None where it has none."""
    done = subprocess.run([sys.executable, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True,
                          check=False, env=environment)
    return done.stdout.strip() if done.returncode == 0 else None


def has_package(name, environment):
    """Whether this Python finds it; nothing of it is run."""
    asks = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({name!r}) is None)"
    return subprocess.run([sys.executable, "-c", asks], check=False, env=environment).returncode == 0


def libcupti(nvcc=None, python_path=None):
    """The libcupti of the toolkit that nvcc belongs to, else one among Python's packages; None where there is none. A
    program without PyTorch has loaded none, and the injected library looks in /usr/local/cuda and where the loader does."""
    nvcc = nvcc or shutil.which("nvcc")
    places = []
    if nvcc:
        root = pathlib.Path(nvcc).resolve().parents[1]
        places += [root / "extras/CUPTI/lib64", root / "lib64", root / "lib", root / "targets/x86_64-linux/lib"]
    for place in sys.path if python_path is None else python_path:
        places += sorted(pathlib.Path(place).glob("nvidia/*/lib"))
    for place in places:
        for name in ("libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", "libcupti.so"):
            if (place / name).exists():
                return place / name
    return None
