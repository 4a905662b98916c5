#!/usr/bin/env python3
"""Writes a trace as PyTorch Profiler would, of any size: a training of many small kernels with overlapping all-reduces, whose shares are
known. Usage: make_trace.py FILE MIB [STEPS]. A name that ends in .gz is compressed. Seeded: the same text each time."""

import gzip
import random
import sys

KERNEL = (
    '{{"ph":"X","cat":"kernel","name":"{name}","pid":0,"tid":{stream},"ts":{ts:.3f},"dur":{dur:.3f},"args":{{"External id":{n},'
    '"queued":0,"device":0,"context":1,"stream":{stream},"correlation":{n},"registers per thread":32,"shared memory":2064,'
    '"blocks per SM":1.185185,"warps per SM":4.740741,"grid":[128,1,1],"block":[128,1,1],"est. achieved occupancy %":7}}}}'
)
LAUNCH = (
    '{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":{ts:.3f},"dur":4.2,"args":{{"External id":{n},'
    '"cbid":211,"correlation":{n}}}}}'
)
ARROW = '{{"ph":"{ph}","id":{n},"pid":9,"tid":9,"ts":{ts:.3f},"cat":"ac2g","name":"ac2g"}}'
OPERATOR = (
    '{{"ph":"X","cat":"cpu_op","name":"aten::add_","pid":9,"tid":9,"ts":{ts:.3f},"dur":5.5,"args":{{"External id":{n},'
    '"Sequence number":{n},"Fwd thread id":0,"Ev Idx":{n},"Input Dims":[[1024,1024],[1024,1024],[]],"Input type":["float","float","Scalar"]}}}}'
)
ELEMENTWISE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3> >(int, "
    "at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3>)"
)
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def events(most_bytes, steps):
    """(text) of one event after the other."""
    rng = random.Random(1)
    a_step = max(most_bytes // steps, 1)
    now = 4203669604000.0
    number = 0
    for step in range(steps):
        written = 0
        begin = now
        while written < a_step:
            number += 1
            computes = number % 50 != 0
            length = rng.uniform(5, 15) if computes else 200.0
            parts = [
                OPERATOR.format(ts=now - 20, n=number),
                LAUNCH.format(ts=now - 18, n=number),
                ARROW.format(ph="s", ts=now - 18, n=number),
                KERNEL.format(name=ELEMENTWISE if computes else ALL_REDUCE, stream=7 if computes else 20, ts=now, dur=length, n=number),
                ARROW.format(ph="f", ts=now, n=number),
            ]
            now += length + rng.uniform(0, 4)
            for part in parts:
                written += len(part) + 2
                yield part
        yield (
            f'{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{step}","pid":9,"tid":9,"ts":{begin - 25:.3f},'
            f'"dur":{now - begin:.3f},"args":{{}}}}'
        )


def main():
    path, mebibytes = sys.argv[1], int(sys.argv[2])
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else 10
    with (gzip.open(path, "wt", compresslevel=1) if path.endswith(".gz") else open(path, "w")) as out:
        out.write('{"schemaVersion":1,"deviceProperties":[{"id":0,"name":"NVIDIA H100 80GB HBM3","totalGlobalMem":85024112640}],\n')
        out.write('"distributedInfo":{"backend":"nccl","rank":0,"world_size":8},"baseTimeNanoseconds":1700000000000000000,\n"traceEvents":[\n')
        for place, text in enumerate(events(mebibytes << 20, steps)):
            out.write((",\n" if place else "") + text)
        out.write("\n]}\n")


if __name__ == "__main__":
    main()
