"""Reported failures that a scenario script cannot tell: several processes, faults, schedules."""
