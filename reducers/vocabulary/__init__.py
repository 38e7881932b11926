"""Plain words of the core: what inputs, events, effects and states are made of. No judgement."""
