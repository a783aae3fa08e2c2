"""Read and write the files of users and of runs."""
