#!/bin/bash
# Trains on all GPUs of a SLURM job, and goes on where it stopped when the job is queued again:
#   CONFIG=settings.toml RESULTS=results/products sbatch docs/slurm_train.sh [flags of salient train]
#SBATCH --job-name=salient
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=2
#SBATCH --cpus-per-task=40
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail

config=${CONFIG:?set CONFIG to a TOML file, see docs/training.md}
results=${RESULTS:?set RESULTS to a folder that all nodes see}
nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
head_node=${nodes%%$'\n'*}
resume=()
if [[ -e $results/last.pt ]]; then
  resume=(--resume "$results/last.pt")
fi

# One task per node: torchrun starts a rank for each GPU of its node. If one node fails, all end.
srun --kill-on-bad-exit=1 torchrun \
  --nnodes "$SLURM_NNODES" --nproc-per-node "$SLURM_GPUS_ON_NODE" \
  --rdzv-backend c10d --rdzv-id "$SLURM_JOB_ID" --rdzv-endpoint "$head_node:29500" \
  -m salient.train --config "$config" --device cuda --checkpoint "$results/best.pt" \
  ${resume[@]+"${resume[@]}"} "$@"
