"""The Python API: each command as a function, and its results as an object.

`zelo_ray` exports what is public. The modules here know files, options and tables; the commands
themselves are in `zelo_ray.commands`.
"""
