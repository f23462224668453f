"""What every layer uses: argument checks, arrays, blocks of rows, threads, memory, progress, seeds."""
