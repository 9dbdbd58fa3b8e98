//! The transparent accelerator: flow table, flow life cycle, subscribers, scheduling, policy.
