"""What runs inside the captured process: standard library and that process's own torch only.

`sitecustomize` loads this folder as a package of its own name into every Python process of
the command, so nothing here may import the rest of codesign: the interpreter of a container
need not have it.
"""
