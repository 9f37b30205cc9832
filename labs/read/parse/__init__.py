"""What tools and the kernel print, turned into rows: pure functions, standard library only."""
