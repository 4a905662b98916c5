"""The Kubernetes manifest: what refers to something refers to what is there, and the programs accept what it tells them."""

import pathlib
import re
import subprocess
import tempfile
import unittest

import yaml

from installation import BUILD, ROOT
from supervised_daemon import upgrade_limit

MANIFEST = ROOT / "packaging" / "kubernetes" / "trimtab.yaml"
# Made by an operator, as the manifest's head says.
SECRETS = {"trimtab-coordinator-tls": {"ca.crt", "tls.crt", "tls.key"}, "trimtab-tokens": {"tokens"}}


class Manifest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.documents = list(yaml.safe_load_all(MANIFEST.read_text()))
        cls.by_kind = {document["kind"]: document for document in cls.documents}
        cls.workloads = [document for document in cls.documents if document["kind"] in ("StatefulSet", "DaemonSet")]

    def pods(self):
        for workload in self.workloads:
            yield workload, workload["spec"]["template"]

    def test_everything_is_there_and_in_one_namespace(self):
        self.assertEqual(sorted(document["kind"] for document in self.documents),
                         ["ConfigMap", "DaemonSet", "Namespace", "NetworkPolicy", "PodDisruptionBudget", "Service", "StatefulSet"])
        for document in self.documents:
            self.assertRegex(document["metadata"]["name"], r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
            if document["kind"] != "Namespace":
                self.assertEqual(document["metadata"]["namespace"], self.by_kind["Namespace"]["metadata"]["name"])

    def test_selectors_select_their_pods(self):
        labels = {}
        for workload, pod in self.pods():
            labels[workload["metadata"]["name"]] = pod["metadata"]["labels"]
            wanted = workload["spec"]["selector"]["matchLabels"]
            self.assertLessEqual(wanted.items(), pod["metadata"]["labels"].items())
        of_coordinator = labels["trimtab-coordinator"]
        for selector in (self.by_kind["Service"]["spec"]["selector"],
                         self.by_kind["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
                         self.by_kind["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"]):
            self.assertLessEqual(selector.items(), of_coordinator.items())
            self.assertFalse(selector.items() <= labels["trimtab-agent"].items())

    def test_mounts_and_ports_exist(self):
        for workload, pod in self.pods():
            spec = pod["spec"]
            volumes = {volume["name"] for volume in spec["volumes"]}
            volumes |= {claim["metadata"]["name"] for claim in workload["spec"].get("volumeClaimTemplates", [])}
            (container,) = spec["containers"]
            self.assertEqual({mount["name"] for mount in container["volumeMounts"]}, volumes)
            ports = {port["name"] for port in container.get("ports", [])}
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                port = container.get(probe, {}).get("tcpSocket", {}).get("port")
                self.assertTrue(port is None or port in ports)
        service = self.by_kind["Service"]
        self.assertEqual(service["spec"]["ports"][0]["targetPort"], "https")
        self.assertEqual(self.by_kind["StatefulSet"]["spec"]["serviceName"], service["metadata"]["name"])

    def test_configuration_and_secrets_are_what_is_referred_to(self):
        keys = set(self.by_kind["ConfigMap"]["data"])
        for _, pod in self.pods():
            for volume in pod["spec"]["volumes"]:
                if "configMap" in volume:
                    self.assertEqual(volume["configMap"]["name"], self.by_kind["ConfigMap"]["metadata"]["name"])
                    self.assertLessEqual({item["key"] for item in volume["configMap"]["items"]}, keys)
                if "secret" in volume:
                    self.assertIn(volume["secret"]["secretName"], SECRETS)
                    self.assertEqual(volume["secret"]["defaultMode"], 0o440)  # nobody else may read a key
        self.assertNotIn("Secret", self.by_kind)
        head = MANIFEST.read_text().split("apiVersion", 1)[0]
        namespace = head.index(f"kubectl create namespace {self.by_kind['Namespace']['metadata']['name']}\n")
        for name, files in SECRETS.items():
            self.assertLess(namespace, head.index(f"create secret generic {name}"))
            for file in files:
                self.assertIn(f"--from-file={file}", head)

    def test_files_of_the_configuration_are_mounted(self):
        for kind, file in (("StatefulSet", "coordinator.toml"), ("DaemonSet", "agent.toml")):
            (container,) = self.by_kind[kind]["spec"]["template"]["spec"]["containers"]
            mounted = [mount["mountPath"] for mount in container["volumeMounts"]]
            text = self.by_kind["ConfigMap"]["data"][file]
            paths = re.findall(r'"(/[^"]+)"', text)
            self.assertGreaterEqual(len(paths), 4)
            for path in paths:
                self.assertTrue(any(path == place or path.startswith(place + "/") for place in mounted), path)
            self.assertIn(f"/etc/trimtab/{file}", container["command"])

    def test_pods_have_no_more_rights_than_they_need(self):
        for _, pod in self.pods():
            spec = pod["spec"]
            self.assertFalse(spec["automountServiceAccountToken"])
            self.assertTrue(spec["securityContext"]["runAsNonRoot"])
            (container,) = spec["containers"]
            self.assertFalse(container["securityContext"]["allowPrivilegeEscalation"])
            self.assertEqual(container["securityContext"]["capabilities"]["drop"], ["ALL"])
            self.assertNotIn("privileged", container["securityContext"])
        coordinator = self.by_kind["StatefulSet"]["spec"]["template"]["spec"]["containers"][0]
        self.assertTrue(coordinator["securityContext"]["readOnlyRootFilesystem"])
        self.assertIn("memory", coordinator["resources"]["limits"])

    def test_an_agents_ranks_have_time_to_save_and_are_not_replaced_by_surprise(self):
        spec = self.by_kind["DaemonSet"]["spec"]
        command = spec["template"]["spec"]["containers"][0]["command"]
        grace = int(command[command.index("--kill-grace") + 1].removesuffix("s"))
        self.assertLess(grace, spec["template"]["spec"]["terminationGracePeriodSeconds"])
        self.assertEqual(spec["updateStrategy"]["type"], "OnDelete")

    def test_the_coordinator_has_time_to_bring_a_database_up_to_date(self):
        probe = self.by_kind["StatefulSet"]["spec"]["template"]["spec"]["containers"][0]["startupProbe"]
        self.assertGreaterEqual(probe["periodSeconds"] * probe["failureThreshold"], upgrade_limit() + 300)

    def test_agents_are_not_the_first_to_be_evicted_and_their_ranks_have_no_limits(self):
        resources = self.by_kind["DaemonSet"]["spec"]["template"]["spec"]["containers"][0]["resources"]
        self.assertEqual(resources["requests"].keys(), {"cpu", "memory"})
        self.assertEqual(resources["limits"].keys(), {"nvidia.com/gpu"})

    def test_a_stalled_agent_does_not_end_its_ranks(self):
        container, = self.by_kind["DaemonSet"]["spec"]["template"]["spec"]["containers"]
        self.assertFalse({"livenessProbe", "startupProbe"} & container.keys())
        self.assertEqual(container["readinessProbe"]["httpGet"]["path"], "/metrics")

    def test_the_programs_accept_command_and_configuration(self):
        # They come as far as the certificates, which are not here; a key or flag that they do not know ends them before.
        for kind, file, missing in (("StatefulSet", "coordinator.toml", "tls"), ("DaemonSet", "agent.toml", "tls")):
            with tempfile.TemporaryDirectory() as directory:
                configuration = pathlib.Path(directory) / file
                configuration.write_text(self.by_kind["ConfigMap"]["data"][file])
                program, *words = self.by_kind[kind]["spec"]["template"]["spec"]["containers"][0]["command"]
                words = [str(configuration) if word == f"/etc/trimtab/{file}" else word for word in words]
                done = subprocess.run([str(BUILD / "bin" / program), *words], capture_output=True, text=True, timeout=20,
                                      env={"TRIMTAB_NODE": "n0", "TRIMTAB_RUN_AS_ROOT": "true", "PATH": "/usr/bin:/bin"})
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertRegex(done.stderr, rf"couldn't read /etc/trimtab-{missing}/")


if __name__ == "__main__":
    unittest.main()
