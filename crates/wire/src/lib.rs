//! Views and edits of IPv4, IPv6, TCP, UDP and ICMP packets, checksums, GSO split and merge.
