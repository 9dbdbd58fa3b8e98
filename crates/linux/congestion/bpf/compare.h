/* SPDX-License-Identifier: GPL-2.0 */
/* What the program of a comparison and the one outside share. Sizes and order are the same in src/compare/layout.rs,
 * whose tests compare both. */
#ifndef COMPARE_H
#define COMPARE_H

#include <linux/types.h>

/* Constants of one loaded program. */
struct settings {
	__u64 seed;
	__u64 network; /* cookie of the network namespace */
	__u32 local_port; /* 0: any */
	__u32 is_by_client; /* else by connection */
	__u32 has_mptcp;
	__u32 reserved;
	char controls[2][16]; /* of group 0 and of group 1 */
};

/* The ends of a connection, as numbers. An IPv4 address has `network` alone, in its low half. */
struct ends {
	__u64 network; /* the first 64 bits of the other end's address */
	__u64 host; /* the last ones */
	__u64 is_ipv6;
	__u64 ports; /* this end's, and in the low half the other end's */
	__u64 own_network;
	__u64 own_host;
};

/* What was measured of a connection. */
struct measured {
	__u64 cookie;
	__u64 network; /* of the other end */
	__u32 is_ipv6;
	__u32 group;
	__u64 acknowledged; /* bytes */
	__u64 busy; /* jiffies in which data waited for acknowledgements */
	__u64 rtt_sum_us; /* smoothed round trips, one per round trip */
	__u64 rtt_samples;
	__u64 rtt_min_us; /* 0: none */
	__u64 segments; /* with data, those that were sent again included */
	__u64 resent; /* segments */
	__u64 acknowledged_before; /* of the handshake */
	__u64 resent_before;
};

/* What happened so far, by group where there are two. */
struct counts {
	__u64 began[2];
	__u64 refused[2]; /* the kernel did not set the congestion control */
	__u64 lost; /* connections that had no room */
};

/* The choice alone, for tests. */
struct trial {
	struct ends ends;
	__u64 group;
};

#endif
