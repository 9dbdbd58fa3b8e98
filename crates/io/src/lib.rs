//! TUN devices, netlink, namespaces, clocks and timers: the only crate with unsafe code.
