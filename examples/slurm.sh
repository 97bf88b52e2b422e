#!/bin/bash
# A measurement as a Slurm array job: one shard per task, then one merge.
#
#   MODEL=org/name CORPUS='/data/*.jsonl.zst' OUT=/shared/runs/name sbatch examples/slurm.sh          # the shards
#   OUT=/shared/runs/name sbatch --dependency=afterok:JOB --array=0 examples/slurm.sh merge            # the merge
#
# A task that is preempted or runs out of time saves its state. Put back into the queue, it resumes from there.
#SBATCH --job-name=layerscope
#SBATCH --array=0-7
#SBATCH --cpus-per-task=8
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --signal=B:TERM@60
set -euo pipefail
if [ "${1:-}" = merge ]; then
    exec layerscope merge "$OUT"/shard-* --out "$OUT/whole" --overwrite
fi
exec layerscope measure --model "$MODEL" --corpus $CORPUS --shard auto --threads "${SLURM_CPUS_PER_TASK:-1}" \
    --out "$OUT/shard-$SLURM_ARRAY_TASK_ID" ${OPTIONS:-}
