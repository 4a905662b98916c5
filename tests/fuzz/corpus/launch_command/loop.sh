for i in 1 2; do python3 train.py --seed $i & done; wait
. ./env.sh; python3 -m torch.distributed.run --nproc_per_node=4 train.py
