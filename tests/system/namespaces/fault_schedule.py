"""What is done to a cluster, and when: all of it follows from a seed. Pure."""
import dataclasses
import random

from node_network import Condition

COORDINATOR = "c0"


@dataclasses.dataclass(frozen=True)
class Fault:
    at: float  # seconds from the beginning
    kind: str
    node: str
    lasts: float = 0
    up: Condition = Condition()  # of links
    down: Condition = Condition()
    amount: int = 0  # of bursts

    def __str__(self):
        words = [f"{self.at:5.1f} s", self.kind, self.node]
        if self.lasts:
            words.append(f"for {self.lasts:.1f} s")
        if self.amount:
            words.append(f"of {self.amount}")
        return " ".join(words + [f"{way} {text}" for way, text in (("up", _text(self.up)), ("down", _text(self.down))) if text])


def _text(condition):
    return ",".join(f"{name}={value:.3g}" if isinstance(value, float) else name
                    for name, value in dataclasses.asdict(condition).items() if value)


def _slow(chance):
    rate = 10 ** chance.uniform(4.8, 7)  # 64 kbit/s to 10 Mbit/s
    return Condition(rate=rate), Condition(rate=rate)


def _lossy(chance):
    return Condition(loss=chance.uniform(0.01, 0.3)), Condition(loss=chance.uniform(0.01, 0.3))


def _delayed(chance):
    return Condition(delay=chance.uniform(0.005, 0.4)), Condition(delay=chance.uniform(0.005, 0.4))


def _disordered(chance):
    return (Condition(jitter=chance.uniform(0.005, 0.08), twice=chance.uniform(0, 0.2)),
            Condition(jitter=chance.uniform(0.005, 0.08), twice=chance.uniform(0, 0.2)))


def _cut(chance):
    return chance.choice(((Condition(cut=True), Condition(cut=True)), (Condition(cut=True), Condition()),
                          (Condition(), Condition(cut=True))))


LINKS = {"slow": (_slow, 15), "lossy": (_lossy, 15), "delayed": (_delayed, 10), "disordered": (_disordered, 10),
         "cut": (_cut, 30)}
# Kind: how often, and how long at most where it lasts.
OTHERS = {"kill": (3, 6), "freeze": (2, 20), "link down": (1, 8), "no address": (1, 8), "burst": (2, 0), "move": (1, 0)}
LINK_WEIGHT = 2


def schedule(seed, agents, seconds, spared):
    """Faults from 1 s to `seconds`. `spared` is never killed, so that it must account for all that it was given."""
    chance = random.Random(seed)
    kinds = [*LINKS, *OTHERS]
    weights = [LINK_WEIGHT] * len(LINKS) + [OTHERS[kind][0] for kind in OTHERS]
    faults, at = [], 1.0
    while at < seconds:
        faults.append(_fault(chance, chance.choices(kinds, weights)[0], at, [COORDINATOR, *agents], spared))
        at += chance.uniform(0.3, 4)
    return faults


def _fault(chance, kind, at, nodes, spared):
    node = chance.choice(nodes)
    if kind in LINKS:
        make, longest = LINKS[kind]
        up, down = make(chance)
        return Fault(at, kind, node, chance.uniform(1, longest), up, down)
    if kind == "move":
        return Fault(at, kind, COORDINATOR)
    if kind == "burst":
        return Fault(at, kind, chance.choice(nodes[1:]), amount=chance.randint(50, 600))
    if kind == "kill" and node == spared:
        node = COORDINATOR
    return Fault(at, kind, node, chance.uniform(0.1, OTHERS[kind][1]))
