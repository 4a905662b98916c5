"""The markdown table of a soak."""
import os
import platform


def _row(*cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def _header(*names):
    return [_row(*names), _row(*("---" for _ in names))]


def idle_table(rows):
    lines = _header("daemon", "CPU, of one core", "RSS", "PSS", "disk", "/metrics less /proc: CPU", "and RSS")
    for row in rows:
        lines.append(_row(row.daemon, f"{100 * row.cpu:.2f} %", f"{row.rss_mib:.1f} MiB", f"{row.pss_mib:.1f} MiB", f"{row.disk_mib:.1f} MiB",
                          f"{row.said_cpu_s:+.2f} s", f"{row.said_rss_mib:+.2f} MiB"))
    return lines


def daemons_table(cluster, sampler, verdict):
    lines = _header("daemon", "lives", "RSS, first third", "last third", "by slope", "most", "PSS, most", "CPU, of one core",
                    "databases, most", "their logs, most", "other files, most")
    for daemon in cluster.daemons:
        own = [s for s in sampler.samples if s.daemon == daemon.name]
        first, last, grown, most = verdict.memory(daemon) or (0, 0, 0, 0)
        spent = {}
        for s in own:
            spent[s.life] = max(spent.get(s.life, 0), s.cpu_s)
        cpu = sum(spent.values()) / max(1.0, own[-1].t)
        lines.append(_row(daemon.name, daemon.lives, f"{first:.1f} MiB", f"{last:.1f} MiB", f"{grown:+.2f} MiB", f"{most:.1f} MiB",
                          f"{max(s.pss_kib for s in own) / 1024:.1f} MiB", f"{100 * cpu:.1f} %",
                          f"{max(s.database_bytes for s in own) >> 10} KiB", f"{max(s.log_bytes for s in own) >> 10} KiB",
                          f"{max(s.other_bytes for s in own) >> 10} KiB"))
    return lines


def rows_table(sampler, final_rows):
    lines = _header("table", "most rows", "in the end")
    for daemon in ("coordinator", "n0"):
        most = {}
        for _, name, counts in sampler.rows:
            if name == daemon:
                for table, count in counts.items():
                    most[table] = max(most.get(table, 0), count)
        lines += [_row(f"{daemon}: {table}", most[table], final_rows[daemon].get(table, "-")) for table in sorted(most)]
    return lines


def counted_table(name, counts):
    return _header(name, "times") + [_row(what, count) for what, count in sorted(counts.items())]


def checks_table(checks):
    return _header("what must hold", "found", "") + [_row(what, found, "yes" if holds else "**NO**") for what, found, holds in checks]


def document(command, options, parts):
    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.release()}"
    lines = ["# Soak", "", f"    {command}", "",
             f"{options.agents} agents and a coordinator under mutual TLS, {options.jobs} jobs at a time, {options.minutes:g} minutes of load, "
             f"seed {options.seed}; retention {options.retention} s for everything; {machine}. Restarts in the first "
             f"{100 * options.restarts:.0f} % of the time, all other faults throughout. tests/system/soak says what each figure is."]
    for title, table in parts:
        lines += ["", f"## {title}", "", *table]
    return "\n".join(lines) + "\n"
