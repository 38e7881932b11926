"""Which tests cover which acceptance lines of the kernel specification."""
