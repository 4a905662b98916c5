"""The job of job.py as a rank of mpirun's: it says its own rank to PyTorch, by Open MPI's variables.

    mpirun -n 2 under_mpirun.py --meet FILE --seconds 8 ...        # FILE: where ranks meet; it is not there yet
"""

import os
import sys

import torch
import torch.distributed as dist

import job


def main():
    place = sys.argv.index("--meet")
    meet = os.path.abspath(sys.argv[place + 1])
    del sys.argv[place:place + 2]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meet}", rank=int(os.environ["OMPI_COMM_WORLD_RANK"]),
                            world_size=int(os.environ["OMPI_COMM_WORLD_SIZE"]))
    job.train(job.arguments())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
