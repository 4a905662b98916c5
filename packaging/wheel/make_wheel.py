"""Makes the wheel of a finished build (scripts/wheel).

Programs are scripts of the wheel, so pip puts them into the environment's bin. Libraries go beside it, into lib/trimtab, where the programs
look for them. Completion files and manual pages are what shell_files.py has written into the build's folder shell-files.
Needs Debian's python3-wheel, which writes the archive and its record.
"""
import argparse
import pathlib
import re
import shutil
import sys
import tempfile

from wheel.wheelfile import WheelFile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ["trimtab", "trimtab-agent", "trimtab-coordinator"]
LIBRARIES = ["libtrimtab-inject.so", "libnccl-profiler-trimtab.so", "libnccl-tuner-trimtab.so", "libtrimtab-nvtx.so"]
NEEDED_LIBRARIES = LIBRARIES[:1]
ZSH = ("vendor-completions", "site-functions")  # Debian's folder for its packages, and that of everything else
# What a portable program contains of others, by the Debian package whose copyright file holds its licence's text.
CONTAINED = ["libboost1.81-dev", "libprotobuf-dev", "libsqlite3-dev", "libsqlitecpp-dev", "libspdlog-dev", "libfmt-dev", "libcli11-dev",
             "libtomlplusplus-dev", "nlohmann-json3-dev", "libssl-dev", "zlib1g-dev", "libstdc++-12-dev"]
LICENCES = pathlib.Path("/usr/share/doc")
TAG = "py3-none-manylinux_2_34_x86_64"
METADATA = """Metadata-Version: 2.1
Name: trimtab
Version: {version}
Summary: Finds a faster plan for a large training job, on the job itself, while it trains
License: Apache-2.0
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Requires-Python: >=3.9
Description-Content-Type: text/markdown

{readme}"""


def version():
    return re.search(r"^project\(trimtab VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.M).group(1)


def copy(source, place):
    """A file with its content alone: a link becomes what it points to."""
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, place)


def fill(tree, build, release):
    """Lays out what the wheel holds."""
    data = tree / f"trimtab-{release}.data"
    for name in PROGRAMS:
        copy(build / "bin" / name, data / "scripts" / name)
    for name in LIBRARIES:
        if (build / "lib" / name).exists() or name in NEEDED_LIBRARIES:
            copy(build / "lib" / name, data / "data" / "lib" / "trimtab" / name)
    client = ROOT / "client" / "python"
    for source in sorted(client.rglob("*.py")):
        place = source.relative_to(client)
        if place.parts[0] == "trimtab":
            copy(source, tree / place)
        # For jobs that `trimtab run` watches: a folder without other people's packages. A wheel has no links, so these are copies.
        copy(source, data / "data" / "lib" / "trimtab" / "python" / place)
    for source in sorted((ROOT / "trainer").glob("*.py")):  # What trimtab.megatron_benchmark runs.
        place = pathlib.Path("trimtab", "reference_trainer", source.name)
        copy(source, tree / place)
        copy(source, data / "data" / "lib" / "trimtab" / "python" / place)
    for source in sorted(path for path in (build / "shell-files").rglob("*") if path.is_file()):
        place = str(source.relative_to(build / "shell-files")).replace(*ZSH)
        copy(source, data / "data" / "share" / place)
    information = tree / f"trimtab-{release}.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(METADATA.format(version=release, readme=(ROOT / "README.md").read_text()))
    (information / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: trimtab\nRoot-Is-Purelib: false\nTag: {TAG}\n")
    for name in ("LICENSE", "THIRD_PARTY.md"):
        copy(ROOT / name, information / name)
    for package in CONTAINED:
        copy(LICENCES / package / "copyright", information / "licenses" / f"{package.removesuffix('-dev')}.txt")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="the build folder of the preset portable")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    given = parser.parse_args()
    release = version()
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / f"trimtab-{release}-{TAG}.whl"
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        fill(tree, given.build, release)
        with WheelFile(path, "w") as archive:
            archive.write_files(folder)
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
