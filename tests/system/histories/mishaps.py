"""What is done to daemons, links, clocks, disks and databases in a history, drawn from its seed, and healed at its end."""
import os
import random
import signal
import time

from cluster import SPARED, WANDERERS, fakes_clocks

CLOCK_JUMPS_S = (-86400, -30, 5, 3600, 40 * 86400)
MOST = 3  # faults in a history


class Mishaps:
    def __init__(self, cluster, history, seed):
        self._cluster, self._history, self._seed = cluster, history, seed
        self._chance = random.Random(f"{seed}/faults")
        self._heals = []
        self.kinds = {
            "coordinator: SIGKILL": self._kill_coordinator, "agent: SIGKILL": self._kill_agent,
            "coordinator: SIGSTOP": self._stop_coordinator, "agent: SIGSTOP": self._stop_agent,
            "link: cut": lambda: self._link("cut"), "link: holds all": lambda: self._link("hold"),
            "link: loses all": lambda: self._link("swallow"), "link: half-closed": self._half_close}
        if fakes_clocks():
            self.kinds["clock: jumps"] = self._clock
        if any(daemon.disk for daemon in self._daemons()):
            self.kinds["disk: full"] = self._fill
        if cluster.server:
            self.kinds |= {"server: SIGQUIT, started again": self._restart_server, "server: ends connections": self._end_connections,
                           "coordinator: taken over": self._take_over, "agent: goes to the other coordinator": self._wander}
        else:
            self.kinds["database: removed"] = self._remove

    def _daemons(self):
        return [*self._cluster.coordinators.values(), *self._cluster.agents.values()]

    def run(self, seconds):
        """Some faults, each for a part of the time; then all is healed. Names of what was done."""
        end, done = time.monotonic() + seconds, []
        try:
            for _ in range(self._chance.randint(1, MOST)):
                time.sleep(self._chance.uniform(0.02, seconds / MOST))
                kind = self._chance.choice(sorted(self.kinds))
                self._history.add("fault", self._seed, what=kind, whom=self.kinds[kind]())
                done.append(kind)
            time.sleep(max(0.0, end - time.monotonic()))
        finally:
            self.heal()
        return done

    def heal(self):
        while self._heals:
            self._heals.pop()()
        self._history.add("healed", self._seed)

    # Each says whom it met.

    def _coordinator(self):
        return self._cluster.coordinators[self._chance.choice(sorted(self._cluster.coordinators))]

    def _agent(self, but=None):
        return self._cluster.agents[self._chance.choice([name for name in sorted(self._cluster.agents) if name != but])]

    def _kill(self, daemon):
        if not daemon.has_its_files():
            return f"nobody: {daemon.name} has not written back what was removed, and nobody else has it"
        daemon.end(signal.SIGKILL)
        if self._chance.random() < 0.7:  # As systemd does it.
            daemon.start()
        else:
            self._heals.append(lambda: daemon.pid() or daemon.start())
        return daemon.name

    def _kill_coordinator(self):
        return self._kill(self._coordinator())

    def _kill_agent(self):
        return self._kill(self._agent(SPARED))

    def _stop(self, daemon):
        if daemon.pid():
            os.kill(daemon.pid(), signal.SIGSTOP)
        self._heals.append(lambda: daemon.pid() and os.kill(daemon.pid(), signal.SIGCONT))
        return daemon.name

    def _stop_coordinator(self):
        return self._stop(self._coordinator())

    def _stop_agent(self):
        return self._stop(self._agent())

    def _any_link(self):
        links = {**self._cluster.links, **{f"people of {name}": link for name, link in self._cluster.people.items()}}
        name = self._chance.choice(sorted(links))
        return name, links[name]

    def _link(self, what):
        name, link = self._any_link()
        seconds = round(self._chance.uniform(0.05, 0.5), 2)
        getattr(link, what)(seconds)
        return f"{name}, {seconds} s"

    def _half_close(self):
        name, link = self._any_link()
        link.half_close()
        return name

    def _clock(self):
        daemon = self._chance.choice([one for one in self._daemons() if one.clock])
        seconds = self._chance.choice(CLOCK_JUMPS_S)
        daemon.set_clock(seconds)
        self._heals.append(lambda: daemon.set_clock(0))
        return f"{daemon.name}, {seconds} s"

    def _fill(self):
        daemon = self._chance.choice([one for one in self._daemons() if one.disk])
        daemon.disk.fill()
        self._heals.append(daemon.disk.free)
        return daemon.name

    def _restart_server(self):
        self._cluster.server.restart()
        return "server"

    def _end_connections(self):
        self._cluster.server.end_connections()
        return "server"

    def _take_over(self):
        """Another coordinator is started on the state of one that stands still, which then goes on."""
        old = self._coordinator()
        name = old.name.partition("-")[0]
        if name in self._cluster.deposed:
            return "nobody: one was already"
        self._stop(old)
        self._cluster.server.end_connections(name)
        new = self._cluster.coordinator(name, f"{name}-{old.lives}-{self._seed}")
        new.start()
        self._cluster.deposed[name], self._cluster.coordinators[name] = old, new
        for agent, home in self._cluster.homes.items():
            if home == name:
                self._cluster.links[agent].lead_to(new.port)
        self._cluster.people[name].lead_to(new.port)
        time.sleep(0.1)
        if old.pid():
            os.kill(old.pid(), signal.SIGCONT)
        self._heals.append(lambda: self._depose(name, old))
        return name

    def _depose(self, name, old):
        old.end(signal.SIGKILL)
        del self._cluster.deposed[name]

    def _wander(self):
        agent = self._chance.choice(WANDERERS)
        home = "c0" if self._cluster.homes[agent] == "c1" else "c1"
        self._cluster.homes[agent] = home
        self._cluster.links[agent].lead_to(self._cluster.coordinators[home].port)
        return f"{agent} to {home}"

    def _remove(self):
        daemon = self._chance.choice([one for one in self._daemons() if one.name != SPARED])
        file = daemon.state / self._chance.choice(("costs.db", "coordinator.db" if daemon.kind == "coordinator" else "agent.db"))
        file.unlink(missing_ok=True)
        daemon.removed.add(file)
        return f"{daemon.name}, {file.name}"
