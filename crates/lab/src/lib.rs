//! Emulated cellular networks between real Linux TCP stacks in network namespaces.
