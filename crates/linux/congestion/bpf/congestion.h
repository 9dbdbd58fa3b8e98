/* SPDX-License-Identifier: GPL-2.0 */
/* What the program in the kernel and the one outside share. Sizes and order are the same in src/layout.rs;
 * tests/arithmetic.rs compares both. */
#ifndef CONGESTION_H
#define CONGESTION_H

#include "law.h"

/* Constants of one loaded program. */
struct settings {
	__u32 is_test; /* events are written down */
	__u32 reserved;
};

enum event_kind {
	EVENT_BEGIN = 1, /* rtt_us: the handshake's; delivered: the window to begin with */
	EVENT_IDLE, /* nothing was in flight until then */
	EVENT_TIMEOUT,
	EVENT_ACK,
	EVENT_PEERS, /* other members of the path have said something */
};

/* What happened to a connection, and what came of it; for tests. */
struct event {
	__u64 number; /* of the connection */
	__u64 sequence; /* of the event, from 1 */
	__u64 kind;
	__u64 mss;
	struct ack_event ack;
	struct peers peers;
	__u64 window;
	__u64 pacing_rate;
	__u64 cwnd; /* as the kernel has it then */
};

/* A connection in socket storage. */
struct connection {
	struct law law;
	struct member member; /* its number is the connection's, from 1; 0: it has not begun */
	__u64 path; /* the path that counts it, by number; 0: none does */
	__u64 sequence;
	__u64 shown_us; /* when it was shown last */
};

/* A destination: an IPv4 address, or the first 64 bits of an IPv6 address. */
struct path_key {
	__u64 address; /* in network order; IPv4 in the first four bytes */
	__u64 is_ipv6;
};

/* What is known of a destination, and how many connections are counted in it. Who sweeps takes away those that count
 * none and were not heard of for long. */
struct shared_path {
	struct path path;
	__u64 number; /* from 1 */
	__u64 connections;
};

/* What is shown of a connection. */
struct shown {
	__u8 remote[16]; /* IPv4 in the first four bytes */
	__u16 remote_port;
	__u16 local_port;
	__u16 is_ipv6;
	__u16 others; /* members of the path besides, where it is one */
	__u32 bound;
	__u32 rtt_us; /* smoothed */
	__u64 at_us;
	__u64 window;
	__u64 average;
	__u64 forecast;
	__u64 floor_us;
	__u64 delivered;
};

/* One event for the arithmetic alone, for tests. */
struct trial {
	__u64 kind;
	__u64 mss;
	struct ack_event ack;
	struct law law;
	struct member member;
	struct path path;
	struct peers peers;
	__u64 is_due; /* there was something to exchange */
};

enum trial_kind {
	TRIAL_EXCHANGE = 6, /* after an acknowledgement; what comes of it is heard */
	TRIAL_LEAVE,
	TRIAL_HINT, /* the window to begin with, to ack.delivered */
};

#endif
