"""One file an effect: carry it out, turn what is expected to fail into data, answer once."""
