"""The results as one JSON document and as a table for people. Pure."""
AIMS = {"before": 0.08, "after": 0.04}  # Mean errors of predictions.


def percent(ratio):
    return f"{100 * (ratio['value'] - 1):+.2f} % [{100 * (ratio['low'] - 1):+.2f}, {100 * (ratio['high'] - 1):+.2f}]"


def table(document, every=()):
    """`every`: the names of all sections; those without a result were not run."""
    lines = [f"gpu-check of {document['date']}"]
    device = document.get("device") or {}
    if device:
        lines.append(f"{device.get('device')}, driver {device.get('driver')}, {device.get('multiprocessors')} "
                     f"multiprocessors; PyTorch {document.get('pytorch') or 'not found'}")
    lines += ["", f"{'section':<20}{'status':<10}{'seconds':>8}{'budget':>8}  "]
    for section in document["sections"]:
        reason = f"  {section['reason']}" if section.get("reason") else ""
        lines.append(f"{section['section']:<20}{section['status']:<10}{section['seconds']:>8}{section['budget_s']:>8}{reason}")
    present = {section["section"] for section in document["sections"]}
    lines += [f"{name:<20}not run" for name in every if name not in present]
    for section in document["sections"]:
        lines += details(section)
    return "\n".join(lines) + "\n"


def details(section):
    result = section.get("result") or {}
    if "workloads" in result:
        return overhead(section["section"], result["workloads"])
    if "rows" in result:
        return ["", "overlap.txt has the table of slowdowns; not measured here: " + ", ".join(result.get(
            "not_measured_here", []))]
    if "costs" in result:
        return costs(section["section"], result)
    if "predictions" in result:
        return predictions(section["section"], result)
    if "nccl_ms" in result:
        return price(section["section"], result)
    if "nsys" in result:
        return nsys(result["nsys"])
    if "events_on_device" in result:
        return profiler(result)
    if "quiet_step_ns" in result:
        return budget(result)
    if "worlds" in result:
        return fsdp(result["worlds"])
    if "offload" in result:
        return offload(result)
    if "switches" in result:
        return switches(result)
    if "speedup" in result and result["speedup"]:
        speedup = result["speedup"]
        return ["", f"tune: {speedup['ratio']:.3f} times as fast as the initial plan "
                    f"[{speedup['low']:.3f}, {speedup['high']:.3f}]"]
    return []


def costs(name, result):
    """What collecting takes of the time, beside its limit. The 99th percentiles are told and not judged."""
    lines = ["", f"{name}: of the time, {100 * result['limit']:.1f} % are allowed [95 %]"]
    for what, one in result["costs"].items():
        share = one["share"]
        line = (f"  {what:<18}{100 * share['value']:+.2f} % [{100 * share['low']:+.2f}, {100 * share['high']:+.2f}]  "
                f"{share['pairs']} pairs; {one['steps']} of {one['quiet_step_ns'] / 1e6:.2f} ms")
        tails = one.get("p99_ns")
        lines.append(line + (f", {one['recorded_steps']} recorded; p99 {tails['recorded'] / 1e6:.2f} ms recorded, "
                             f"{tails['quiet'] / 1e6:.2f} ms not" if tails else ""))
    return lines


def predictions(name, result):
    lines = ["", f"{name}: {result['launch_costs']} costs are of launches"]
    for kind, one in result["predictions"].items():
        errors = one["errors"]
        lines.append(f"  {kind}: {100 * errors['before']:.1f} % off, {100 * errors['after']:.1f} % after calibration by all others "
                     f"({100 * AIMS['before']:.0f} and {100 * AIMS['after']:.0f} are the aims)")
        for row in one["rows"]:
            shares = ", ".join(f"{part} {100 * share:.0f} %" for part, share in row["shares"].items() if share >= 0.005)
            lines.append(f"    {row['plan']:<22}measured {row['measured_ms']:.1f} ms, predicted {row['before_ms']:.1f}, "
                         f"after {row['after_ms']:.1f}; {shares or 'shares are not known'}")
    return lines


def price(name, result):
    nccl, events = result["nccl_ms"], result["events_ms"]
    outside = "" if events is None else f"; {events:.3f} by CUDA's events"
    return ["", f"{name}: {result['price_ms']:.3f} ms; NCCL's own median of {result['calls']} calls {nccl['value']:.3f} "
            f"[{nccl['low']:.3f}, {nccl['high']:.3f}]{outside}; {result['own_ms']:.3f} with waiting"]


def nsys(counts):
    ours = counts["trimtab"]
    return ["", f"nsys: {counts['launches']} kernels; nsys alone saw {counts['alone']}, beside Trimtab {counts['beside']}; Trimtab "
            f"recorded {ours['kernels']}, CUPTI's state {ours['state']}, not recorded: {', '.join(ours['windows']) or 'nothing'}"]


def profiler(result):
    lines = ["", "profiler: torch.profiler's traces of five steps, and what Trimtab recorded without it"]
    for arm, events in result["events_on_device"].items():
        lines.append(f"  {arm:<8}events on the device in each trace: {', '.join(map(str, events))}")
    for one in result["recorded"]:
        lines.append(f"  recorded {one['kernels']} kernels, median {one['median_ns'] / 1e3:.1f} us")
    return lines + [f"  not recorded for {one['ms']:.0f} ms: {one['why']}" for one in result["windows"]]


def budget(result):
    kernels = result["kernels"]
    return ["", f"budget: {result['seconds']:.0f} s of 5 us kernels under everything, held to the default budget: "
            f"{100 * result['share']:.2f} % of the time beyond the median step ({100 * result['share_at_first']:.2f} % with the "
            f"first seconds); {kernels['recorded']} of {kernels['launched']} kernels recorded"]


def overhead(name, workloads):
    """Cost over the bare runs, as the median of paired ratios; the last arm is bare over bare."""
    lines = ["", f"{name}: cost over bare, median of paired ratios [95 %]"]
    for workload, measures in workloads.items():
        lines.append(f"  {workload}")
        for arm, ratios in measures["step"].items():
            lines.append(f"    {arm:<18}step {percent(ratios['median']):<28}p99 {percent(ratios['p99']):<28}"
                         f"{ratios['median']['pairs']} pairs")
    if name == "overhead-chain":
        lines.append("  One process has no collectives: 'full + KernelCh' shows what the loaded plugin costs, not its events.")
    return lines


def mebibytes(count):
    return "-" if count is None else f"{count / 2**20:.0f} MiB"


def fsdp(worlds):
    """PyTorch shards nothing on one rank: there the asked strategy and the one that ran differ."""
    lines = ["", "fsdp: a plan exported to PyTorch's FSDP, beside the same steps in plain PyTorch"]
    for world_size, one in worlds.items():
        lines.append(f"  {world_size} ranks on one GPU: asked {one['asked']}, ran {one['strategy']}; losses within "
                     f"{one['loss_difference']:.1e}; peak {mebibytes(one['peak_bytes'])}, plain "
                     f"{mebibytes(one['plain_peak_bytes'])}")
    return lines


def offload(result):
    lines = ["", f"offload: the reference trainer, losses within {result['loss_difference']:.1e}"]
    for arm, run in result["offload"].items():
        lines.append(f"  states on the {arm:<8}peak {mebibytes(run['peak_bytes'])}, step {run['step_ms']:.2f} ms")
    return lines


def switches(result):
    lines = ["", f"switches: plans that the reference trainer changed to, losses within {result['loss_difference']:.1e}"]
    for name, run in result["switches"].items():
        lines.append(f"  {name:<16}allocated {mebibytes(run['peak_bytes'])}, step {run['step_ms']:.2f} ms")
    return lines
