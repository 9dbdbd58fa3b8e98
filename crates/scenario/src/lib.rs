//! Scenario files shared by the lab and the simulator.
