"""The tests mirror the three packages; `contracts` holds what no single module owns."""
