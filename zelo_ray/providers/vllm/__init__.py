"""Models that vLLM runs inside the job: engines on the job's GPUs, and the judges that ask them."""
