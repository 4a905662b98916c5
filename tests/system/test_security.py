"""Coordinator and agent under mutual TLS with certificates and tokens as `trimtab cert` and `trimtab token` make them."""

import http.client
import json
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import unittest

from installation import BUILD, TRIMTAB, free_port, wait_until


class Cluster:
    """`with Cluster() as cluster:` gives certificates, tokens and the two daemons on loopback."""

    def __enter__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="trimtab-tls-"))
        self.started = []
        self.run("cert", "init", "--dir", self.path("ca"), "--cluster", "lab")
        self.issue("coordinator", "c0", "--host", "127.0.0.1", "--host", "localhost")
        self.issue("node", "n0", "--host", "127.0.0.1")
        self.issue("node", "n1")
        self.issue("person", "ana")
        self.issue("person", "wall")
        self.run("token", "add", "ana", "--role", "operate", "--tokens", self.path("tokens"), "-o", self.path("ana.token"))
        self.run("token", "add", "wall", "--tenant", "*", "--tokens", self.path("tokens"), "-o", self.path("wall.token"))
        self.coordinator = self.start("coordinator", "--listen", "127.0.0.1:0", "--state", self.path("state"),
                                      "--port-file", self.path("port"), "--tokens", self.path("tokens"), *self.tls("c0"))
        self.port = wait_until(self.read_port, "the coordinator's port", 20)
        return self

    def __exit__(self, *ignored):
        for process in self.started:
            process.terminate()
            process.wait(timeout=30)
        shutil.rmtree(self.directory, ignore_errors=True)

    def path(self, name):
        return str(self.directory / name)

    def read_port(self):
        file = self.directory / "port"
        return file.exists() and int(file.read_text())

    def log(self, daemon="coordinator"):
        return (self.directory / f"{daemon}.log").read_text()

    def tls(self, name, authority="ca"):
        return ("--tls-authority", self.path(f"{authority}/ca.crt"), "--tls-certificate", self.path(f"ca/{name}.crt"),
                "--tls-key", self.path(f"ca/{name}.key"))

    def run(self, *arguments, code=0):
        done = subprocess.run([str(TRIMTAB), *arguments], capture_output=True, text=True, timeout=60)
        assert done.returncode == code, f"{arguments} gave {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done

    def issue(self, *arguments):
        self.run("cert", "issue", *arguments, "--dir", self.path("ca"))

    def start(self, daemon, *arguments, name=None):
        with open(self.directory / f"{name or daemon}.log", "w") as log:
            self.started.append(subprocess.Popen([str(BUILD / "bin" / f"trimtab-{daemon}"), *arguments],
                                                 stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        return self.started[-1]

    def start_agent(self, certificate, node, metrics_port=0, *more):
        return self.start("agent", "--coordinator", f"127.0.0.1:{self.port}", "--node", node, "--state", self.path(node),
                          "--socket", self.path(f"{node}.sock"), "--metrics-address", "0.0.0.0", "--metrics-port",
                          str(metrics_port), "--sample-period", "0s", "--memory", "1GiB", *self.tls(certificate), *more, name=node)

    def ask(self, person, *arguments, token=None, code=0):
        return self.run(*arguments, "--coordinator", f"127.0.0.1:{self.port}", "--state", self.path("none"),
                        "--token-file", self.path(f"{token or person}.token"), *self.tls(person), code=code)

    def status_of(self, person, method, target):
        token = (self.directory / f"{person}.token").read_text().strip()
        return self.request(person, self.port, method, target, {"Authorization": f"Bearer {token}"})[0]

    def request(self, owner, port, method, target, headers):
        """What another TLS library gets, with the certificate of `owner`: status and body."""
        context = ssl.create_default_context(cafile=self.path("ca/ca.crt"))
        context.load_cert_chain(self.path(f"ca/{owner}.crt"), self.path(f"ca/{owner}.key"))
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=context)
        connection.request(method, target, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, body.decode()

    def doctor(self, *arguments):
        """What doctor finds of the agent."""
        said = subprocess.run([str(TRIMTAB), "doctor", "--json", "--configuration", str(self.directory), "--state",
                               self.path("none"), *arguments], capture_output=True, text=True, timeout=120).stdout
        return [check["found"] for check in json.loads(said)["checks"] if check["name"].startswith("agent")]

    def nodes(self):
        return [node["name"] for node in json.loads(self.ask("wall", "status", "--json").stdout)["nodes"]]


class Security(unittest.TestCase):
    def test_a_cluster_under_tls(self):
        with Cluster() as cluster:
            metrics_port = free_port()
            cluster.start_agent("n0", "n0", metrics_port)
            wait_until(lambda: cluster.nodes() == ["n0"], "the agent's joining", 30)

            with self.subTest("an agent's metrics are for people, under TLS"):
                status, text = cluster.request("wall", metrics_port, "GET", "/metrics", {})
                self.assertEqual(status, 200)
                self.assertIn("trimtab_agent_coordinator_connected 1", text)
                self.assertEqual(cluster.request("n1", metrics_port, "GET", "/metrics", {})[0], 403)
                with socket.create_connection(("127.0.0.1", metrics_port), timeout=10) as plain:
                    plain.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    self.assertNotIn(b"HTTP/1.1", plain.recv(100))
                large = cluster.request("wall", metrics_port, "GET", "/metrics", {"X-Large": 20_000 * "x"})
                self.assertEqual(large[0], 431)
                with socket.create_connection(("127.0.0.1", metrics_port), timeout=30) as slow:
                    slow.sendall(b"\x16\x03\x01")
                    self.assertEqual(slow.recv(100), b"")
                wait_until(lambda: "the TLS handshake took too long" in cluster.log("n0"), "the log's line of a slow handshake", 10)
                for refused in ("metrics: refused (tls): 127.0.0.1:", "speaks HTTP without TLS",
                                "metrics: refused (forbidden): 127.0.0.1:", "a person's certificate alone, but 'n1'",
                                "metrics: refused (too_large): 127.0.0.1:", "the header is larger than 16384 bytes"):
                    self.assertIn(refused, cluster.log("n0"))
                text = cluster.request("wall", metrics_port, "GET", "/metrics", {})[1]
                self.assertIn("\ntrimtab_agent_metrics_requests_refused_total 4\n", text)

            with self.subTest("doctor asks such an agent with a person's certificate, and says when it has none"):
                files = dict(zip(("tls_authority", "tls_certificate", "tls_key"), cluster.tls("n0")[1::2]))
                lines = [f'{key} = "{value}"' for key, value in {"metrics_address": "0.0.0.0", **files}.items()]
                (cluster.directory / "agent.toml").write_text("\n".join([*lines, f"metrics_port = {metrics_port}", ""]))
                found = cluster.doctor(*cluster.tls("wall"))
                self.assertTrue(found)
                self.assertFalse([text for text in found if "answers at" in text or "under TLS" in text], found)
                self.assertIn("under TLS", cluster.doctor()[0])
                self.assertIn("status 403", cluster.doctor(*cluster.tls("n1"))[0])

            with self.subTest("a node's certificate under another name"):
                impostor = cluster.start_agent("n0", "n1")
                self.assertEqual(impostor.wait(timeout=20), 2)
                self.assertIn("must be the certificate of node n1", cluster.log("n1"))
            with self.subTest("who has a node's key is no node of another tenant"):
                cluster.issue("node", "n2", "--tenant", "ana")
                for said, refused in (("*", "all tenants"), ("bob", "tenant 'bob'")):
                    thief = cluster.start_agent("n2", "n2", 0, "--tenant", said, "--run-as-root")
                    words = f"node n2 says that it runs jobs of {refused}, but its certificate is for those of tenant 'ana'"
                    wait_until(lambda: words in cluster.log("n2"), "the refusal", 20)
                    self.assertIn(words, cluster.log())
                    thief.kill()
                    thief.wait(timeout=20)
                self.assertEqual(cluster.nodes(), ["n0"])
            with self.subTest("a viewer gives no order, and a token is of use to its owner alone"):
                self.assertEqual(cluster.status_of("wall", "POST", "/v1/jobs/any/stop"), 403)
                self.assertEqual(cluster.status_of("ana", "POST", "/v1/jobs/any/stop"), 404)
                self.assertIn("needs the certificate of that person",
                              cluster.ask("wall", "status", token="ana", code=2).stderr)
            with self.subTest("without TLS"):
                with socket.create_connection(("127.0.0.1", cluster.port), timeout=10) as plain:
                    plain.sendall(b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    self.assertNotIn(b"HTTP/1.1", plain.recv(100))
                self.assertIn("speaks HTTP without TLS", cluster.log())
            with self.subTest("an agent beyond loopback without TLS"):
                far = cluster.start("agent", "--coordinator", "192.0.2.1:7420", "--node", "far", "--state",
                                    cluster.path("far"), "--socket", cluster.path("far.sock"), name="far")
                self.assertEqual(far.wait(timeout=20), 2)
                self.assertIn("needs TLS", cluster.log("far"))
            with self.subTest("new certificates and tokens without a restart"):
                cluster.issue("coordinator", "c0", "--host", "127.0.0.1")
                cluster.run("token", "remove", "wall", "--tokens", cluster.path("tokens"))
                cluster.coordinator.send_signal(signal.SIGHUP)
                wait_until(lambda: "the certificates have been read again" in cluster.log(), "the reload", 10)
                self.assertIn("not known here", cluster.ask("wall", "status", code=2).stderr)
                self.assertEqual(cluster.ask("ana", "status").returncode, 0)
                self.assertIsNone(cluster.coordinator.poll())
            secrets = [cluster.path("ana.token"), cluster.path("wall.token"), cluster.path("ca/c0.key")]
            for secret in secrets:
                self.assertNotIn(pathlib.Path(secret).read_text().strip().splitlines()[-2 if "key" in secret else -1],
                                 cluster.log() + cluster.log("n0"))


if __name__ == "__main__":
    unittest.main()
