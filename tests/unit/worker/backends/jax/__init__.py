"""In JAX, and what its compilers make of it; in processes of their own."""
