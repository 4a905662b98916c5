#!/bin/bash
set -e
export CUDA_DEVICE_MAX_CONNECTIONS=1
export MASTER_ADDR=${MASTER_ADDR:-localhost}
GPUS=8
NODES=$1
OPTIONS=(--num-layers 24 --hidden-size $((1024 * 2)) "--save=${HOME}/ck")
if [ "$NODES" ]; then
  python -c 'print("hello")'
fi
deepspeed --num_gpus $GPUS train.py "${OPTIONS[@]}" \
  --deepspeed ds.json 2>&1 | tee log
