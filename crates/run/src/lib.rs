//! The accelerator on real interfaces: steering, packet loop, fail-open.
