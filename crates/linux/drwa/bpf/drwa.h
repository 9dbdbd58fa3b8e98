// SPDX-License-Identifier: GPL-2.0
// What the program in the kernel and the one outside share. Sizes and order are the same in
// src/layout.rs; tests/segments.rs compares both through the program's BTF.
#ifndef DRWA_H
#define DRWA_H

#include <linux/types.h>

#define SELECTIONS_MAX 16

// One end of a connection, and the other. IPv4 addresses stand in the first four bytes.
struct key {
	__u8 local[16];
	__u8 remote[16];
	__be16 local_port;
	__be16 remote_port;
	__u32 family; // 4 or 6
};

// What of a handshake was seen, and why a connection is left alone.
enum {
	LOCAL_SYN = 1 << 0,
	REMOTE_SYN = 1 << 1,
	LOCAL_SCALE = 1 << 2,
	REMOTE_SCALE = 1 << 3,
	LOCAL_TIMESTAMPS = 1 << 4,
	REMOTE_TIMESTAMPS = 1 << 5,
	LOCAL_MPTCP = 1 << 6,
	REMOTE_MPTCP = 1 << 7,
	SHAKEN = 1 << 8, // both SYNs seen, and an ACK sent
	LATE = 1 << 9, // first seen after its SYN: the window scale is unknown
	UNSELECTED = 1 << 10,
	MPTCP = 1 << 11, // Multipath TCP: the window is the connection's, relative to DATA_ACK
};

#define TICK_UNKNOWN 0xffffffffu

// How a direction of a connection has ended.
enum {
	ENDED_FIN = 1 << 0,
	ENDED_RST = 1 << 1,
};

// A connection. What comes in writes the part `in`, what goes out the part `out`: the two may run
// at the same time on different processors, so each 64-bit word has one writer.
struct connection {
	// Written by both, one after the other: the handshake orders them.
	__u32 flags;
	__u32 mss;
	__u32 local_scale;
	__u32 local_isn;
	__u32 remote_isn;
	__u32 syns; // local SYNs sent: after a repeated one there is no round trip (Karn)
	__u64 syn_us;
	__u64 opened_us;

	struct {
		__u64 taken; // the mark that was answered, or given up
		__u64 best; // the round's number, and its smallest round trip in microseconds
		__u64 data_us; // when data came last
		__u64 bytes; // payload that came
		__u64 samples; // round trips measured
		__u32 pauses;
		__u32 ended;
	} in;

	struct {
		__u64 mark; // TSval or right edge, and when it was told, in microseconds (32 bits each)
		__u64 first; // the first TSval, and when it was told, as `mark`; 0: none yet
		__u64 delivered; // bytes acknowledged in order
		__u64 began_us; // when the round began; 0: none has
		__u64 began_delivered;
		__u64 cwnd_est; // in 2^-8 bytes; 0: none yet
		__u64 rtt_est_us; // 0: none yet
		__u64 rtt_min_us; // 0: none yet
		__u64 window; // bytes; 0: no round has ended
		__u64 unexplained_us; // since when; 0: explained
		__u64 explained_rtt_us; // the last one that is; 0: none was
		__u64 explained_cwnd; // cwnd_est before it
		__u64 above_rtt_us; // the first round trip above lambda RTT_min; 0: it is below
		__u64 above_cwnd; // cwnd_est then
		__u64 above_bytes; // the sum of all connections then
		__u64 probe_rtt_us; // the round trip before the window was halved; 0: it is not
		__u64 probe_least_us; // the smallest since
		__u64 probe_rounds; // how many have ended since
		__u64 before_us; // RTT_min before it was learned anew; 0: it never was
		__u64 retry_us; // when to believe that one again; 0: never
		__u64 lowered; // acknowledgements whose window was lowered
		__u64 acks; // segments sent
		__u32 edge; // one past the last number ever allowed
		__u32 acked;
		__u32 tsval;
		__u32 round;
		__u32 pauses; // those of `in` that were taken in
		__u32 slot; // the last one this connection was counted in
		__u32 own_window; // bytes, what the receiver itself said last
		__u32 told_window; // bytes, what was said instead
		__u32 ended;
		__u32 tick_us; // what TSval counts; 0: not known yet, TICK_UNKNOWN: never
	} out;
};

// A second of the interface: how many connections had data, and what they took.
struct slot {
	__u32 number;
	__u32 connections;
	__u64 bytes; // the sum of their cwnd_est
	__u64 queue_us; // the shortest RTT_est - RTT_min
};

struct shared {
	struct slot now;
	struct slot before;
	__u64 queue_until_us; // how long the queue is believed that nobody tells of again
	__u64 data_us; // when data last came to any connection
};

// The shortest round trip to a host.
struct peer {
	__u64 rtt_min_us;
	__u64 confirmed_us;
};

// What is counted, over all connections.
struct counters {
	__u64 connections; // whose windows are managed
	__u64 late;
	__u64 mptcp;
	__u64 unselected;
	__u64 segments_out;
	__u64 windows_lowered;
	__u64 bytes_in;
	__u64 rounds;
};

// Only connections with a remote address in `network/bits` and a remote port in the range.
struct selection {
	__u8 network[16];
	__u32 family; // 4, 6, or 0: any address
	__u32 bits;
	__u16 port_min;
	__u16 port_max;
	__u32 reserved;
};

// Constants of one loaded program.
struct settings {
	__u64 alpha_permille;
	__u64 lambda_permille;
	__u64 initial_window;
	__u64 re_baseline_us; // 0: never
	__u64 retry_us; // 0: never
	__u32 link_header_len; // 14 on Ethernet, 0 where packets have none
	__u32 is_free_without_queue;
	__u32 shares; // connections of the interface share what they know
	__u32 without_timestamps; // measure by windows of data only
	__u32 selections; // 0: every connection
	__u32 is_test; // the time is that of `test_now_us`
	struct selection selection[SELECTIONS_MAX];
};

#endif
