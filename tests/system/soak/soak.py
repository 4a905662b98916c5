"""A bounded soak of real daemons under load with faults: does anything grow, is anything lost, does what must be forgotten go?

An idle minute first, then load and faults by a seed, then quiet until everything is older than its retention. Exit code 1
where a bound is broken, which is named.
"""
import argparse
import collections
import pathlib
import random
import shlex
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import idle  # noqa: E402
import table  # noqa: E402
from daemons import Cluster  # noqa: E402
from faults import Faults  # noqa: E402
from installation import ROOT, wait_until  # noqa: E402
from load import Load  # noqa: E402
from readers import Readers  # noqa: E402
from samples import Sampler, table_rows, take  # noqa: E402
from verdict import Verdict  # noqa: E402

QUIET_S = 30  # beyond the retention, in the end
LOOKS_OF_RETENTION = 8  # an agent looks for what is older so often (kLooksOfRetention in agent/src/commands/job_retention.cpp)


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30, help="of load (default 30)")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32, help="of faults and jobs (default: another each time)")
    parser.add_argument("--agents", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2, help="at a time")
    parser.add_argument("--idle", type=float, default=60, help="seconds of the idle measurement before the load; 0 = none")
    parser.add_argument("--retention", type=int, help="seconds that anything is kept (default: a fifteenth of the load, at least 20)")
    parser.add_argument("--restarts", type=float, default=0.4, help="share of the load in which daemons are killed and restarted, too")
    parser.add_argument("--out", type=pathlib.Path, help="the markdown table")
    parser.add_argument("--csv", type=pathlib.Path, default=ROOT / "build" / "soak" / "samples.csv", help="all samples")
    options = parser.parse_args()
    options.retention = options.retention or max(20, round(options.minutes * 4))
    return options


def run_load(cluster, options, sampler):
    """Load, readers and faults for the time; what each did, and when the restarts ended."""
    seeds = random.Random(options.seed)
    load, readers, faults = (part(cluster, random.Random(seeds.random()), *more)
                             for part, more in ((Load, (options.jobs,)), (Readers, ()), (Faults, ())))
    for part in (load, readers, faults):
        part.start()
    time.sleep(60 * options.minutes * options.restarts)
    faults.no_restarts()
    calm = sampler.now()
    time.sleep(60 * options.minutes * (1 - options.restarts))
    end = sampler.now()
    for part in (faults, load):
        part.stop()
    over = load.look_until_over(120)
    readers.stop()
    return load, readers, faults, (calm, end), over


def settle(cluster, options):
    """Until all is quiet: everybody connected, no rank, every spool empty, everything older than its retention."""
    wait_until(cluster.connected, "the agents' return", 60)
    wait_until(lambda: not cluster.ranks(), "the end of all ranks", 60)
    wait_until(lambda: all(idle.said(cluster.agent_metrics(agent), "trimtab_agent_spool_bytes") == 0 for agent in cluster.agents),
               "acknowledgements of all costs", 120)
    time.sleep(options.retention * (1 + 1 / LOOKS_OF_RETENTION) + QUIET_S)


def soak(options):
    with Cluster(options.agents, options.retention) as cluster:
        idle_rows = idle.measure(cluster, options.idle) if options.idle else []
        baseline = {daemon.name: take(daemon, 0) for daemon in cluster.daemons}
        sampler = Sampler(cluster, options.csv)
        sampler.start()
        load, readers, faults, stretch, over = run_load(cluster, options, sampler)
        settle(cluster, options)
        sampler.stop()
        verdict = Verdict(sampler, baseline, stretch)
        final_rows = {daemon.name: table_rows(daemon) for daemon in cluster.daemons}
        for daemon in cluster.daemons:
            verdict.check_memory(daemon)
            verdict.check_descriptors(daemon, take(daemon, 0))
            verdict.check_database(daemon)
        verdict.check_retention(final_rows)
        verdict.check_counts(cluster)
        verdict.check_logs(cluster)
        verdict.check("every job came to an end", f"{sum(load.ended.values())} jobs", over and load.ended.get("finished", 0) > 0)
        verdict.check("every fault could be thrown", "; ".join(faults.broken[:3]) or "yes", not faults.broken)
        failed = {code: count for code, count in readers.answered.items() if code[:1] == "5"}
        verdict.check("no request was answered by a failure of the coordinator", failed or "none", not failed)
        directories = sum(len(list((agent.state / "jobs").glob("*"))) for agent in cluster.agents if (agent.state / "jobs").is_dir())
        verdict.check("no job's directory is left on a node", directories, directories == 0)
        for what in idle.broken(idle_rows):
            verdict.check("idle budget", what, False)
        answered = collections.Counter({**readers.answered, "unanswered: daemon away or standing still": readers.unanswered})
        parts = [("Idle daemons", table.idle_table(idle_rows)), ("Under load with faults", table.daemons_table(cluster, sampler, verdict)),
                 ("Verdict", table.checks_table(verdict.checks)), ("Rows", table.rows_table(sampler, final_rows)),
                 ("Faults", table.counted_table("fault", faults.thrown)), ("Jobs", table.counted_table("ended as", load.ended)),
                 ("Readers", table.counted_table("answer", answered))]
        return verdict, parts


def main():
    options = arguments()
    print(f"soak: seed {options.seed}, {options.minutes:g} minutes", flush=True)
    verdict, parts = soak(options)
    command = f"scripts/soak --minutes {options.minutes:g} --seed {options.seed}"
    if options.out:
        command += f" --out {shlex.quote(str(options.out))}"
    text = table.document(command, options, parts)
    if options.out:
        options.out.write_text(text)
    print(text)
    for what in verdict.broken():
        print(f"BROKEN: {what} (seed {options.seed})", file=sys.stderr)
    return 1 if verdict.broken() else 0


if __name__ == "__main__":
    sys.exit(main())
