"""The Kubernetes manifest against the API's own types, as the official client has them (python3-kubernetes)."""

import re
import unittest

import yaml

from installation import ROOT

try:
    from kubernetes.client import models
except ImportError:
    models = None

MANIFEST = ROOT / "packaging" / "kubernetes" / "trimtab.yaml"
TYPES = {"v1/Namespace": "V1Namespace", "v1/ConfigMap": "V1ConfigMap", "v1/Service": "V1Service",
         "apps/v1/StatefulSet": "V1StatefulSet", "apps/v1/DaemonSet": "V1DaemonSet",
         "policy/v1/PodDisruptionBudget": "V1PodDisruptionBudget", "networking.k8s.io/v1/NetworkPolicy": "V1NetworkPolicy"}
PLAIN = {"str": str, "int": int, "bool": bool, "float": (int, float), "object": object, "datetime": str}


def faults(value, kind, place):
    """Where the value is not of the API's type of that name."""
    if listed := re.fullmatch(r"list\[(.*)\]", kind):
        if not isinstance(value, list):
            return [f"{place}: must be a list"]
        return [fault for i, one in enumerate(value) for fault in faults(one, listed.group(1), f"{place}[{i}]")]
    if mapped := re.fullmatch(r"dict\(str, (.*)\)", kind):
        if not isinstance(value, dict):
            return [f"{place}: must be a map"]
        return [fault for key, one in value.items() for fault in faults(one, mapped.group(1), f"{place}.{key}")]
    if kind in PLAIN:
        quantity = ".resources." in place or place.endswith(".storage")
        good = isinstance(value, PLAIN[kind]) and not (kind == "int" and isinstance(value, bool))
        return [] if good or (quantity and isinstance(value, int)) else [f"{place}: must be {kind}, but it is {value!r}"]
    return faults_of_object(value, getattr(models, kind), place)


def faults_of_object(value, model, place):
    if not isinstance(value, dict):
        return [f"{place}: must be an object"]
    names = {theirs: ours for ours, theirs in model.attribute_map.items()}
    found = [f"{place}: there is no field {key}" for key in value if key not in names]
    try:
        model(**{names[key]: one for key, one in value.items() if key in names})
    except ValueError as missing:
        found.append(f"{place}: {missing}")
    for key, one in value.items():
        if key in names:
            found += faults(one, model.openapi_types[names[key]], f"{place}.{key}")
    return found


@unittest.skipUnless(models, "needs python3-kubernetes")
class Types(unittest.TestCase):
    def judge(self, document):
        kind = TYPES[f"{document['apiVersion']}/{document['kind']}"]
        return faults(document, kind, document["kind"])

    def test_every_document_is_of_its_type(self):
        documents = list(yaml.safe_load_all(MANIFEST.read_text()))
        self.assertEqual(len(documents), len(TYPES))
        for document in documents:
            self.assertEqual(self.judge(document), [])

    def test_a_fault_is_found(self):
        documents = {document["kind"]: document for document in yaml.safe_load_all(MANIFEST.read_text())}
        spec = documents["DaemonSet"]["spec"]["template"]["spec"]
        spec["containers"][0]["livenesProbe"] = {}
        spec["terminationGracePeriodSeconds"] = "long"
        del documents["DaemonSet"]["spec"]["selector"]
        told = "\n".join(self.judge(documents["DaemonSet"]))
        for words in ("no field livenesProbe", "terminationGracePeriodSeconds: must be int", "selector"):
            self.assertIn(words, told)


if __name__ == "__main__":
    unittest.main()
