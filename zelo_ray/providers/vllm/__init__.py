"""Models that vLLM runs inside the job: engines on own GPUs, and the judges that ask them."""
