"""The client neither blocks, nor raises, nor loses what matters, whatever the agent does."""
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "client", "python"))

from trimtab import Refused
from trimtab.client import Client
from trimtab.connection import FRAME_BYTES_MAX, UNSENT_BYTES_MAX, FrameReader, encode

SEED = int(os.environ.get("TRIMTAB_TEST_SEED", "7"))
PLAN = {"schema": "trimtab.plan/1"}


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Agent:
    """One end of the socket, driven by the test itself: the client is served when the test calls it."""

    def __init__(self, path):
        self.path = path
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(path)
        self.listener.listen(4)
        self.listener.settimeout(5)
        self.connection = None

    def accept(self):
        self.connection, _ = self.listener.accept()
        self.connection.settimeout(5)
        self.reader, self.queue = FrameReader(), []
        return self.read()

    def read(self):
        while not self.queue:
            chunk = self.connection.recv(1 << 16)
            if not chunk:
                return None
            self.queue += self.reader.feed(chunk)
        return self.queue.pop(0)

    def say(self, **message):
        self.connection.sendall(encode(message))

    def hang_up(self):
        if self.connection is not None:
            self.connection.close()

    def close(self):
        self.hang_up()
        self.listener.close()
        if os.path.exists(self.path):
            os.unlink(self.path)


class ClientTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="trimtab-client-")
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "agent.sock")
        self.clock = Clock()

    def agent(self):
        agent = Agent(self.path)
        self.addCleanup(agent.close)
        return agent

    def client(self, **environment):
        client = Client({"TRIMTAB_SOCKET": self.path, "TRIMTAB_JOB": "job", "TRIMTAB_RANK": "1",
                         "TRIMTAB_WORLD_SIZE": "2", "TRIMTAB_EPOCH": "3", **environment}, clock=self.clock)
        self.addCleanup(client.close)
        return client

    def pair(self):
        agent, client = self.agent(), self.client()
        client.begin(5)
        self.assertEqual(agent.accept()["type"], "hello")
        return agent, client


class Reports(ClientTest):
    def test_hello_comes_first_and_steps_follow(self):
        agent, client = self.agent(), self.client()
        client.begin(5)
        self.assertEqual(agent.accept(), {
            "type": "hello", "version": 1, "pid": os.getpid(), "job": "job", "rank": 1, "world_size": 2,
            "epoch": 3, "step": 5})
        client.step(5, wall_ns=7, cpu_ns=6, loss=2.5, samples="ab", gradient_norm=float("nan"))
        self.assertEqual(agent.read(), {"type": "step", "step": 5, "epoch": 3, "wall_ns": 7, "cpu_ns": 6,
                                        "loss": 2.5, "samples": "ab", "not_finite": "gradient_norm"})
        client.report("tokens_per_second", 12.5)
        self.assertEqual(agent.read(), {"type": "report", "name": "tokens_per_second", "value": 12.5})
        client.close(6)
        self.assertEqual(agent.read(), {"type": "bye", "step": 6})
        self.assertIsNone(agent.read())

    def test_a_hello_says_what_the_start_took(self):
        agent, client = self.agent(), self.client()
        client.begin(5, {"groups": 12.0})
        self.assertEqual(agent.accept()["groups_ns"], 12)

    def test_a_loss_that_is_no_number_is_named(self):
        agent, client = self.agent(), self.client()
        client.begin()
        agent.accept()
        client.step(0, loss=float("inf"), gradient_norm=2.0)
        step = agent.read()
        self.assertEqual((step["not_finite"], step["gradient_norm"]), ("loss", 2.0))
        self.assertNotIn("loss", step)

    def test_a_step_says_how_often_the_process_has_prepared_something(self):
        agent, client = self.pair()
        client.step(5)
        self.assertNotIn("preparations", agent.read())
        client.prepared()
        client.prepared()
        client.step(6)
        self.assertEqual(agent.read()["preparations"], 2)
        client.step(7)
        self.assertEqual(agent.read()["preparations"], 2)
        self.assertEqual(client.errors, 0)

    def test_what_json_cannot_say_is_counted_and_dropped(self):
        _, client = self.pair()
        client.report("bad", object())
        client.report("bad", float("inf"))
        self.assertEqual(client.errors, 2)

    def test_no_agent_no_socket_and_switched_off_do_nothing(self):
        for environment in ({}, {"TRIMTAB_SOCKET": ""}, {"TRIMTAB": "0"}):
            client = self.client(**environment)
            client.begin(0)
            for step in range(100):
                client.step(step, loss=1.0)
                self.assertIsNone(client.next_plan(step + 1, lambda value: value))
            with client.range("step", 1):
                client.report("x", 1)
            self.assertEqual(client.errors, 0)

    def test_switched_off_does_not_even_connect(self):
        agent, client = self.agent(), self.client(TRIMTAB="0")
        client.begin(0)
        agent.listener.settimeout(0)
        with self.assertRaises(BlockingIOError):
            agent.listener.accept()

    def test_an_agent_that_does_not_read_costs_no_time_and_bounded_memory(self):
        _, client = self.pair()
        begin = time.monotonic()
        for step in range(20000):
            client.step(step, loss=1.0)
        self.assertLess(time.monotonic() - begin, 5)
        self.assertGreater(client.dropped, 0)
        self.assertLessEqual(client._connection._unsent_bytes, UNSENT_BYTES_MAX)

    def test_answers_outlast_a_queue_full_of_reports(self):
        agent, client = self.pair()
        while not client.dropped:
            client.step(0, loss=1.0)
        client.activated(4, 9, switch_ns=1, peak_bytes=2)
        while True:
            client.report("poll", 1)  # Serves the socket.
            message = agent.read()
            if message["type"] == "plan_active":
                break
        self.assertEqual((message["epoch"], message["step"]), (4, 9))


class Reconnecting(ClientTest):
    def test_a_new_agent_is_greeted_with_the_present_epoch_and_step_once_a_second_at_most(self):
        agent, client = self.pair()
        client.activated(4, 9, switch_ns=1, peak_bytes=2)
        client.step(9)
        agent.close()
        client.step(10)
        client.step(11)
        agent = self.agent()
        client.step(12)  # Within the second: no attempt.
        agent.listener.settimeout(0)
        with self.assertRaises(BlockingIOError):
            agent.listener.accept()
        self.clock.now += 1.0
        client.step(13)
        agent.listener.settimeout(5)
        hello = agent.accept()
        self.assertEqual((hello["type"], hello["epoch"], hello["step"]), ("hello", 4, 14))
        steps = []
        while not steps or steps[-1] != 13:
            steps.append(agent.read()["step"])
        self.assertEqual(steps[-3:], [11, 12, 13], "steps of the time between are kept while there is room")

    def reused(self, client):
        """The other end of a blocking connection of the job's own, which has taken the number of the client's socket."""
        number = client._connection._socket.fileno()
        ours, other = socket.socketpair()
        self.addCleanup(other.close)
        os.dup2(ours.fileno(), number, inheritable=False)  # As os.closerange() and then socketpair().
        ours.close()
        self.addCleanup(os.close, number)
        other.setblocking(False)
        other.sendall(b"the job's")
        return number, other

    def assert_left(self, number, other):
        self.assertEqual(os.read(number, 100), b"the job's")
        with self.assertRaises(BlockingIOError):
            other.recv(100)

    def test_a_number_that_the_job_has_taken_is_the_jobs_and_the_agent_is_greeted_anew(self):
        agent, client = self.pair()
        number, other = self.reused(client)
        client.step(5)
        self.assertFalse(client._connection.connected)
        agent.hang_up()
        self.clock.now += 1.0
        client.step(6)
        self.assertEqual(agent.accept()["type"], "hello")
        self.assertEqual([agent.read()["step"] for _ in range(2)], [5, 6])
        self.assert_left(number, other)
        self.assertEqual(client.errors, 0)

    def test_neither_close_nor_collection_closes_what_the_job_has_taken(self):
        for end in ("close", "collect"):
            with self.subTest(end):
                agent = Agent(self.path)
                client = Client({"TRIMTAB_SOCKET": self.path}, clock=self.clock)
                client.begin(5)
                number, other = self.reused(client)
                if end == "close":
                    client.close()
                del client
                self.assert_left(number, other)
                agent.close()

    def test_a_socket_that_the_job_has_closed_is_given_up(self):
        agent, client = self.pair()
        os.close(client._connection._socket.fileno())
        agent.hang_up()
        client.step(5)
        self.assertFalse(client._connection.connected)
        self.clock.now += 1.0
        client.step(6)
        self.assertEqual(agent.accept()["type"], "hello")
        self.assertEqual(client.errors, 0)

    def test_no_descriptor_takes_the_place_of_a_standard_stream(self):
        agent = self.agent()
        job = ("import os, sys; sys.path.insert(0, sys.argv[1]); from trimtab.client import Client; "
               "from trimtab.watch.account import thread_stolen; client = Client({'TRIMTAB_SOCKET': sys.argv[2]}); "
               "[os.close(one) for one in range(3)]; client.begin(); stolen = thread_stolen(); "
               "taken = [one for one in range(3) if os.path.lexists(f'/proc/self/fd/{one}')]; "
               "os._exit(0 if client._connection.connected and not taken else 1)")
        words = [sys.executable, "-c", job, os.path.join(ROOT, "client", "python"), self.path]
        self.assertEqual(subprocess.run(words, timeout=60).returncode, 0)
        self.assertEqual(agent.accept()["type"], "hello")

    def test_a_socket_that_has_become_a_blocking_one_is_not_waited_for(self):
        _, client = self.pair()
        os.set_blocking(client._connection._socket.fileno(), True)

        def waited(*_):
            raise TimeoutError

        self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, waited))
        signal.alarm(5)
        for step in range(5000):
            client.step(step, loss=1.0)
        signal.alarm(0)
        self.assertTrue(client._connection.connected)

    def test_an_agent_that_has_gone_sends_the_job_no_signal(self):
        agent, client = self.pair()
        heard = []
        self.addCleanup(signal.signal, signal.SIGPIPE, signal.signal(signal.SIGPIPE, lambda *_: heard.append(1)))
        agent.hang_up()
        client.step(5)
        client.step(6)
        self.assertFalse(client._connection.connected)
        self.assertEqual(heard, [])

    def test_garbage_ends_the_connection_not_the_training(self):
        generator = random.Random(SEED)
        garbage = [
            struct.pack("<I", FRAME_BYTES_MAX + 1), struct.pack("<I", 4) + b"nope", struct.pack("<I", 2) + b"[]",
            struct.pack("<I", 2) + b"\xff\xfe", struct.pack("<I", 200000) + b"[" * 200000, encode({})[:3],
            *(generator.randbytes(generator.randint(1, 300)) for _ in range(40))]
        agent, client = self.agent(), self.client()
        for number, piece in enumerate(garbage):
            with self.subTest(number=number, seed=SEED):
                client.step(number)
                agent.accept()
                agent.connection.sendall(piece)
                self.assertIsNone(client.next_plan(number, lambda value: value))
                agent.hang_up()
                self.clock.now += 1.0
                client.step(number)  # Finds the closed connection, and may reconnect at the next call.
                self.clock.now += 1.0

    def test_wellformed_nonsense_is_passed_over(self):
        agent, client = self.pair()
        for message in ({}, {"type": 7}, {"type": "plan_propose"}, {"type": "plan_propose", "epoch": "x", "plan": 1},
                        {"type": "plan_commit", "epoch": 4}, {"type": "stop", "step": None}, {"type": "later"},
                        {"type": "plan_commit", "epoch": 9, "step": 0}):
            agent.connection.sendall(encode(message))
        self.assertIsNone(client.next_plan(6, lambda value: value))
        agent.say(type="plan_propose", epoch=4, plan=PLAN)
        self.assertIsNone(client.next_plan(7, lambda value: value))
        self.assertEqual(agent.read(), {"type": "plan_ack", "epoch": 4, "step": 7})

    def test_an_agent_that_talks_without_end_is_cut_off(self):
        agent, client = self.pair()
        agent.connection.sendall(encode({"type": "later"}) * 1000)
        client.step(1)
        self.assertFalse(client._connection.connected)

    def test_a_forked_child_stays_silent(self):
        agent, client = self.pair()
        child = os.fork()
        if child == 0:
            client.step(99)
            client.close()
            os._exit(0 if client.next_plan(1, lambda value: value) is None else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        client.step(5)
        self.assertEqual(agent.read()["step"], 5, "the parent's connection still works and the child said nothing")


class Changes(ClientTest):
    def test_a_change_needs_proposal_commit_its_step_and_everybody(self):
        agent, client = self.pair()
        alone = lambda value: value
        agent.say(type="plan_propose", epoch=4, plan=PLAN)
        self.assertIsNone(client.next_plan(6, alone))
        self.assertEqual(agent.read(), {"type": "plan_ack", "epoch": 4, "step": 6})
        agent.say(type="plan_commit", epoch=4, step=8)
        self.assertIsNone(client.next_plan(7, alone), "not due")
        self.assertIsNone(client.next_plan(8, lambda value: min(value, 3)), "another rank has not heard")
        change = client.next_plan(9, alone)
        self.assertEqual((change.epoch, change.plan), (4, PLAN))
        self.assertEqual(client.epoch, 3, "the job says when it is active")
        client.activated(4, 9, switch_ns=1, peak_bytes=1)
        self.assertEqual(client.epoch, 4)
        self.assertIsNone(client.next_plan(10, alone))

    def test_a_minimum_that_this_rank_never_held_is_not_taken(self):
        agent, client = self.pair()
        agent.say(type="plan_propose", epoch=5, plan=PLAN)
        client.next_plan(6, lambda value: value)
        agent.say(type="plan_commit", epoch=5, step=6)
        asked = []

        def agree(value):
            asked.append(value)
            return min(value, 4)  # The other rank holds 4 only.

        self.assertIsNone(client.next_plan(7, agree))
        self.assertEqual(asked, [5, 3])

    def test_a_refusal_carries_reason_and_message(self):
        agent, client = self.pair()

        def validate(plan):
            raise Refused("memory", "needs 812 MiB")

        agent.say(type="plan_propose", epoch=4, plan=PLAN)
        agent.say(type="plan_commit", epoch=4, step=0)
        self.assertIsNone(client.next_plan(6, lambda value: value, validate))
        self.assertEqual(agent.read(), {"type": "plan_refuse", "epoch": 4, "reason": "memory",
                                        "message": "needs 812 MiB"})

    def test_a_failed_epoch_never_comes_back(self):
        agent, client = self.pair()
        alone = lambda value: value
        for kind in ({"type": "plan_propose", "plan": PLAN}, {"type": "plan_commit", "step": 6}):
            agent.say(epoch=4, **kind)
        self.assertEqual(client.next_plan(6, alone).epoch, 4)
        client.activated(4, 6, switch_ns=1, peak_bytes=1)
        client.failed(4, 7, reason="out_of_memory", message="m", active_epoch=3)
        self.assertEqual(client.epoch, 3)
        agent.say(type="plan_commit", epoch=4, step=6)
        agent.say(type="plan_propose", epoch=4, plan=PLAN)
        self.assertIsNone(client.next_plan(8, alone))
        kinds = [agent.read()["type"] for _ in range(3)]
        self.assertEqual(kinds, ["plan_ack", "plan_active", "plan_failed"])

    def test_a_cancelled_epoch_is_forgotten(self):
        agent, client = self.pair()
        agent.say(type="plan_propose", epoch=4, plan=PLAN)
        agent.say(type="plan_commit", epoch=4, step=6)
        agent.say(type="plan_cancel", epoch=4)
        self.assertIsNone(client.next_plan(6, lambda value: value))

    def test_what_agree_raises_is_the_jobs_own(self):
        _, client = self.pair()

        def agree(value):
            raise RuntimeError("peer gone")

        with self.assertRaisesRegex(RuntimeError, "peer gone"):
            client.next_plan(6, agree)

    def test_stop_is_requested_after_its_step(self):
        agent, client = self.pair()
        agent.say(type="stop", step=7)
        client.next_plan(7, lambda value: value)
        self.assertFalse(client.stop_requested, "step 7 is still to run")
        client.next_plan(8, lambda value: value)
        self.assertTrue(client.stop_requested)


class KillSwitch(ClientTest):
    """The file alone decides; the other rank is a function that takes the minimum with its own offer."""

    alone = staticmethod(lambda value: value)
    OTHER = {"schema": "trimtab.plan/1", "microbatch": 2}

    def setUp(self):
        super().setUp()
        self.switch = os.path.join(self.folder.name, "kill-switch")
        self.launch = os.path.join(self.folder.name, "plan.json")
        with open(self.launch, "w", encoding="utf-8") as file:
            json.dump(PLAN, file)

    def steered(self):
        agent = self.agent()
        client = self.client(TRIMTAB_KILL_SWITCH=self.switch, TRIMTAB_PLAN=self.launch)
        client.begin(5)
        agent.accept()
        return agent, client

    def throw(self):
        open(self.switch, "w", encoding="utf-8").close()

    def run_trial(self, agent, client, epoch=4, step=6):
        agent.say(type="plan_propose", epoch=epoch, plan=self.OTHER)
        agent.say(type="plan_commit", epoch=epoch, step=step)
        self.assertEqual(client.next_plan(step, self.alone).epoch, epoch)
        client.activated(epoch, step, switch_ns=1, peak_bytes=1)
        self.assertEqual([agent.read()["type"] for _ in range(2)], ["plan_ack", "plan_active"])

    def test_a_trials_plan_is_refused_and_an_incumbent_is_taken(self):
        agent, client = self.steered()
        self.throw()
        agent.say(type="plan_propose", epoch=4, plan=self.OTHER)
        agent.say(type="plan_commit", epoch=4, step=6)
        self.assertIsNone(client.next_plan(6, self.alone))
        self.assertEqual(agent.read()["reason"], "kill_switch")
        agent.say(type="plan_propose", epoch=5, plan=PLAN, incumbent=True)
        agent.say(type="plan_commit", epoch=5, step=7)
        self.assertEqual(client.next_plan(7, self.alone).epoch, 5)

    def test_a_commit_that_is_held_already_does_not_take_effect(self):
        agent, client = self.steered()
        agent.say(type="plan_propose", epoch=4, plan=self.OTHER)
        agent.say(type="plan_commit", epoch=4, step=7)
        self.assertIsNone(client.next_plan(6, self.alone))
        self.throw()
        asked = []
        self.assertIsNone(client.next_plan(7, lambda value: asked.append(value) or value))
        self.assertEqual(asked, [3])
        os.unlink(self.switch)
        self.assertEqual(client.next_plan(8, self.alone).epoch, 4, "released: the commit still stands")

    def test_thrown_in_a_trial_the_ranks_go_back_without_anybody_telling_them(self):
        agent, client = self.steered()
        self.run_trial(agent, client)
        agent.close()
        self.throw()
        asked = []
        change = client.next_plan(7, lambda value: asked.append(value) or value)
        self.assertEqual((change.epoch, change.plan), (3, PLAN))
        self.assertEqual(asked, [-4, 1])
        client.activated(change.epoch, 7, switch_ns=1, peak_bytes=1)
        self.assertEqual(client.epoch, 3)
        asked.clear()
        self.assertIsNone(client.next_plan(8, lambda value: asked.append(value) or value))
        self.assertEqual(asked, [4], "as an epoch that is done with, not as a wish")

    def test_another_ranks_switch_takes_this_one_back_too(self):
        agent, client = self.steered()
        self.run_trial(agent, client)
        answers = iter((-4, 0))
        self.assertIsNone(client.next_plan(7, lambda value: next(answers)), "the other rank does not know the plan")
        answers = iter((-4, 1))
        self.assertEqual(client.next_plan(8, lambda value: next(answers)).epoch, 3)
        client.activated(3, 8, switch_ns=1, peak_bytes=1)
        said = agent.read()
        self.assertEqual((said["type"], said["epoch"], said["reason"]), ("plan_failed", 4, "kill_switch"))

    def test_an_adopted_plan_is_not_left(self):
        agent, client = self.steered()
        self.run_trial(agent, client)
        agent.say(type="plan_propose", epoch=4, plan=self.OTHER, incumbent=True)
        self.throw()
        self.assertIsNone(client.next_plan(7, self.alone))
        self.assertEqual(client.epoch, 4)

    def test_a_trials_plan_becomes_the_incumbent_when_its_own_epoch_is_proposed_as_one(self):
        agent, client = self.steered()
        self.assertTrue(client.runs_incumbent)
        self.run_trial(agent, client)
        self.assertFalse(client.runs_incumbent)
        agent.say(type="plan_propose", epoch=3, plan=PLAN, incumbent=True)
        self.assertIsNone(client.next_plan(7, self.alone))
        self.assertFalse(client.runs_incumbent, "of a plan that does not run")
        agent.say(type="plan_propose", epoch=4, plan=self.OTHER, incumbent=True)
        self.assertIsNone(client.next_plan(8, self.alone))
        self.assertTrue(client.runs_incumbent)

    def test_a_job_that_cannot_go_back_is_asked_once_for_each_throw(self):
        agent, client = self.steered()
        self.run_trial(agent, client)
        self.throw()
        self.assertIsNotNone(client.next_plan(7, self.alone))  # And the job fails to make that change.
        self.assertIsNone(client.next_plan(8, self.alone))
        os.unlink(self.switch)
        self.assertIsNone(client.next_plan(9, self.alone))
        self.throw()
        self.assertIsNotNone(client.next_plan(10, self.alone))


if __name__ == "__main__":
    unittest.main()
