#!/bin/bash
#SBATCH --nodes=4 --ntasks-per-node=1 --exclusive
trap 'kill $(jobs -p)' EXIT
file=scheduler-$SLURM_JOB_ID.json
dask scheduler --protocol=tls --scheduler-file=$file --no-dashboard --dashboard-address=127.0.0.1:0 &
srun dask worker --protocol=tls --scheduler-file=$file --no-nanny --no-dashboard --dashboard-address=127.0.0.1:0 --nthreads=1 --memory-limit=0 &
busbw run --cluster=$file --processes=$SLURM_NTASKS --device=gpu
