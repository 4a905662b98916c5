"""Writes a release's bill of materials: an SPDX 2.3 document that names each file of the release with its hash, and which releases of which
libraries are inside it or needed by it.

Usage: sbom.py --release VERSION --commit COMMIT --epoch SECONDS --out FILE ARTIFACT...      ARTIFACT: .deb or .whl files

A wheel's programs contain their libraries (make_wheel.py says which). A Debian package contains what has headers alone, and needs the
packages of its Depends field. Versions are those of this machine's Debian packages, with which the release was built.
"""
import argparse
import datetime
import hashlib
import json
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "wheel"))
from make_wheel import CONTAINED  # noqa: E402

HEADERS_ALONE = ["libboost1.81-dev", "libcli11-dev", "libtomlplusplus-dev", "nlohmann-json3-dev"]
LICENCES = {"libboost1.81-dev": "BSL-1.0", "libprotobuf-dev": "BSD-3-Clause", "libsqlite3-dev": "blessing", "libsqlitecpp-dev": "MIT",
            "libspdlog-dev": "MIT", "libfmt-dev": "MIT", "libcli11-dev": "BSD-3-Clause", "libtomlplusplus-dev": "MIT",
            "nlohmann-json3-dev": "MIT", "libssl-dev": "Apache-2.0", "zlib1g-dev": "Zlib",
            "libstdc++-12-dev": "GPL-3.0-or-later WITH GCC-exception-3.1"}


def said(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def version_of(package):
    return said("dpkg-query", "-W", "-f=${Version}", package)


def identifier(*words):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", "-".join(words))


def library(package):
    """A Debian package of this machine as SPDX says it."""
    version = version_of(package)
    return {"SPDXID": identifier("library", package), "name": package, "versionInfo": version, "supplier": "Organization: Debian",
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "copyrightText": "NOASSERTION", "licenseConcluded": "NOASSERTION",
            "licenseDeclared": LICENCES.get(package, "NOASSERTION"),
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                              "referenceLocator": f"pkg:deb/debian/{package.replace('+', '%2B')}@{version.replace('+', '%2B')}"}]}


def needed(artifact):
    """Packages of Debian that a .deb depends on and that this machine has: those that it was linked against."""
    depends = said("dpkg-deb", "-f", str(artifact), "Depends")
    names = [re.split(r"[ (|:]", entry.strip(), maxsplit=1)[0] for entry in depends.split(",") if entry.strip()]
    return sorted({name for name in names if re.match(r"lib|zlib", name)})


def artifact_entry(path, release):
    return {"SPDXID": identifier("artifact", path.name), "name": path.name, "versionInfo": release, "packageFileName": path.name,
            "supplier": "Organization: Trimtab", "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "copyrightText": "NOASSERTION",
            "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0",
            "checksums": [{"algorithm": "SHA256", "checksumValue": hashlib.sha256(path.read_bytes()).hexdigest()}]}


def document(release, commit, epoch, artifacts):
    packages, relations, libraries = [], [], set()
    for path in sorted(artifacts):
        entry = artifact_entry(path, release)
        packages.append(entry)
        relations.append(("SPDXRef-DOCUMENT", "DESCRIBES", entry["SPDXID"]))
        inside = CONTAINED if path.suffix == ".whl" else HEADERS_ALONE
        beside = [] if path.suffix == ".whl" else needed(path)
        relations += [(entry["SPDXID"], "CONTAINS", identifier("library", name)) for name in inside]
        relations += [(entry["SPDXID"], "DEPENDS_ON", identifier("library", name)) for name in beside]
        libraries |= {*inside, *beside}
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"trimtab-{release}",
            "documentNamespace": f"urn:trimtab:release:{release}:{commit}",
            "comment": f"Trimtab {release}, built from commit {commit}",
            "creationInfo": {"created": datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                             "creators": ["Tool: trimtab-sbom", "Organization: Trimtab"]},
            "packages": packages + [library(name) for name in sorted(libraries)],
            "relationships": [{"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other} for one, kind, other in relations]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--release", required=True)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--epoch", type=int, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("artifacts", type=pathlib.Path, nargs="+")
    given = parser.parse_args()
    made = document(given.release, given.commit, given.epoch, given.artifacts)
    given.out.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    for package in made["packages"]:
        if package["SPDXID"].startswith("SPDXRef-library"):
            print(f"{package['name']} {package['versionInfo']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
