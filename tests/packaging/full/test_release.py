"""A release's bill of materials, and that packaging a build twice gives the same bytes. Needs packages and a wheel (scripts/package,
scripts/wheel)."""

import hashlib
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from installation import ROOT

PACKAGES = sorted((ROOT / "build" / "packages").glob("*.deb"))
WHEELS = sorted((ROOT / "build" / "wheels").glob("*.whl"))
EPOCH = "1700000000"


def hashes(paths):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


@unittest.skipUnless(PACKAGES and WHEELS, "no packages or no wheel: scripts/package and scripts/wheel make them")
class Release(unittest.TestCase):
    def test_bill_of_materials(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "trimtab.spdx.json"
            subprocess.run(["/usr/bin/python3", ROOT / "packaging" / "sbom.py", "--release", "0.1.0", "--commit", "abc", "--epoch", EPOCH,
                            "--out", out, *PACKAGES, *WHEELS], check=True, capture_output=True)
            told = json.loads(out.read_text(encoding="utf-8"))
        packages = {package["SPDXID"]: package for package in told["packages"]}
        files = {package["name"]: package["checksums"][0]["checksumValue"] for package in packages.values() if "checksums" in package}
        self.assertEqual(files, hashes(PACKAGES + WHEELS))
        inside = {(packages[one["spdxElementId"]]["name"], one["relationshipType"], packages[one["relatedSpdxElement"]]["name"])
                  for one in told["relationships"] if one["spdxElementId"] in packages}
        self.assertIn((WHEELS[0].name, "CONTAINS", "libssl-dev"), inside)
        for package in PACKAGES:
            if package.name.startswith("trimtab-coordinator"):
                self.assertIn((package.name, "DEPENDS_ON", "libssl3"), inside)
        for package in packages.values():
            self.assertTrue(package["versionInfo"], package["name"])

    def packaged(self, out):
        """What is packaged of the build now."""
        environment = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH}
        subprocess.run(["cpack", "--config", ROOT / "build" / "release" / "CPackConfig.cmake", "-B", out], check=True, capture_output=True,
                       env=environment)
        subprocess.run(["/usr/bin/python3", ROOT / "packaging" / "wheel" / "make_wheel.py", "--build", ROOT / "build" / "portable", "--out", out],
                       check=True, capture_output=True, env=environment)
        return hashes([*pathlib.Path(out).glob("*.deb"), *pathlib.Path(out).glob("*.whl")])

    def test_the_same_build_gives_the_same_bytes(self):
        with tempfile.TemporaryDirectory() as folder:
            first = self.packaged(os.path.join(folder, "first"))
            for name in ("trimtab", "trimtab-agent", "trimtab-coordinator"):
                os.utime(ROOT / "build" / "release" / "bin" / name)
                os.utime(ROOT / "build" / "portable" / "bin" / name)
            self.assertEqual(self.packaged(os.path.join(folder, "second")), first)

    def test_programs_name_no_folder_of_who_built_them(self):
        for build in ("release", "portable"):
            for name in ("trimtab", "trimtab-agent", "trimtab-coordinator"):
                with self.subTest(build=build, name=name):
                    path = ROOT / "build" / build / "bin" / name
                    with tempfile.NamedTemporaryFile() as bare:
                        subprocess.run(["strip", "-o", bare.name, path], check=True)
                        self.assertNotIn(str(ROOT).encode(), pathlib.Path(bare.name).read_bytes())


if __name__ == "__main__":
    unittest.main()
