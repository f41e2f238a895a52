#!/usr/bin/env bash
#SBATCH --nodes=4 --ntasks-per-node=1 --gpus-per-task=8 --exclusive --time=2:00:00
. /shared/venv/bin/activate
cd /shared/nightly
rm -f results.json
file=scheduler-$SLURM_JOB_ID.json
trap 'kill $(jobs -p)' EXIT
dask scheduler --protocol=tls --scheduler-file=$file --no-dashboard --dashboard-address=127.0.0.1:0 &
srun dask worker --protocol=tls --scheduler-file=$file --no-nanny --no-dashboard --dashboard-address=127.0.0.1:0 --nthreads=1 --memory-limit=0 &
busbw run --cluster=$file --processes=$SLURM_NTASKS --device=gpu --ranks-per-process=8 --device-wait=300 \
  --baselines=baselines --history=history --results=results.json --require-baselines "$@"
result=$?
busbw summary results.json --history=history
exit $result
