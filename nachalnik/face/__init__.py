"""The methods of `Kernel` by topic, one file each; `nachalnik.kernel` puts them together."""
