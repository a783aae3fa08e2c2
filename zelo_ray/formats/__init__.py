"""Read and write the files of runs: input, results, and the formats of other tools."""
