"""The sampler design study (the paper's Figure 2) and the machine's floor.

The C++ program beside this file builds a sampler from interchangeable choices; nothing of it is
in the shipping path. ``python -m benchmarks.design_study`` builds it, runs it and writes records.
"""

EXPERIMENT = "sampler_design"
FLOOR_EXPERIMENT = "floor"
