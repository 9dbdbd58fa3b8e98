/* SPDX-License-Identifier: GPL-2.0 */
/* What the program in the kernel and the one outside share. Sizes and order are the same in
 * src/layout.rs; tests/arithmetic.rs compares both through the program's BTF. */
#ifndef COUPLED_H
#define COUPLED_H

#include <linux/types.h>

#define SUBFLOWS_MAX 16

/* In the order of control::coupled::Scheme::number. */
enum scheme {
	LIA,
	COUPLED_INCREASE,
	FULLY_COUPLED,
	COUPLED_DECREASE,
	BALIA,
};

/* What the other subflows see of one. Windows in segments. */
struct subflow {
	__u64 number; /* of the socket, from 1; 0: the place is free */
	__u32 window; /* in recovery the one to which it shrinks */
	__u32 srtt_us; /* 0: not known yet */
	__u32 ssthresh;
	__u32 credit; /* segments acknowledged towards the next of growth */
};

/* What a congestion control keeps in a socket: struct inet_connection_sock, icsk_ca_priv. */
struct own {
	__u64 number;
	__u32 token;
	__u32 place; /* in its connection */
	__u32 state; /* enum own_state */
	__u32 reserved;
};

enum own_state {
	UNINITIALISED, /* zeros: the kernel has not called init yet */
	READY, /* it is not known yet whether it is a subflow */
	COUPLED,
	ALONE, /* plain TCP, or there are SUBFLOWS_MAX already */
};

enum event_kind {
	EVENT_JOIN = 1,
	EVENT_LEAVE,
	EVENT_ACK, /* a: segments acknowledged, b: the window limits the sender */
	EVENT_LOSS,
	EVENT_TIMEOUT,
	EVENT_UNDO, /* a: the window before the loss */
};

/* What happened, for tests. `before` is what the kernel had set, `after` what the program made of it. */
struct event {
	__u64 sequence; /* of the connection */
	__u64 number; /* of the socket */
	__u32 token;
	__u32 kind;
	__u32 place;
	__u32 a;
	__u32 b;
	__u32 state; /* enum tcp_ca_state */
	struct subflow before;
	struct subflow after;
};

/* Constants of one loaded program. */
struct settings {
	__u32 scheme;
	__u32 is_test; /* events are written down */
};

/* One event for the arithmetic alone, for tests. */
struct trial {
	__u32 kind; /* of EVENT_ACK and EVENT_LOSS */
	__u32 place;
	__u32 acked;
	__u32 reserved;
	struct subflow subflows[SUBFLOWS_MAX];
};

#endif
