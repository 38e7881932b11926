"""The machines: one file each, each a fold of the events that concern it. None knows another."""
