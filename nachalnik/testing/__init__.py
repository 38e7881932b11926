"""The testing kit: for tests of agents, tools and providers, ours and yours.

Of the three packages only the demo imports it.
"""
