// SPDX-License-Identifier: GPL-2.0
// Coupled congestion control for the subflows of the kernel's MPTCP.
//
// Linux gives each subflow a congestion control of its own. This one keeps what the subflows of a
// connection know of each other in a map, by the connection's token:
//
//        ACK on subflow r ──▶ cong_avoid ──┐                      ┌──▶ price of growth ──▶ snd_cwnd
//        loss on r        ──▶ ssthresh   ──┼─▶ connections[token] ┤
//        time-out, undo   ──▶ set_state …──┘   w_i, rtt_i         └──▶ window after a loss
//
// Growth of 1/p per segment acknowledged has the price p. Slow start is that of each subflow.
//
//        scheme             price                                          window after a loss
//        lia                max(x^2 / max(w_i/rtt_i^2), w_r)               w_r/2             RFC 6356
//        coupled-increase   w                                              w_r/2             [MP]
//        fully-coupled      w                                              w_r - w/2         [MP]
//        coupled-decrease   w_r                                            w_r - w/2         [MP]
//        balia              10 x^2 w_r / ((x_r + max x)(4 x_r + max x))    w_r - w_r/2 min(max x/x_r, 3/2)
//
//        w = sum of w_i,  x_i = w_i/rtt_i,  x = sum of x_i
//
// A socket that is no subflow is a connection by itself: each scheme is Reno then.
//
// crates/core/control/src/coupled.rs is the same in Rust, and counts in the same integers.

#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "coupled.h"

char LICENSE[] SEC("license") = "GPL";

typedef _Bool bool;

// What is used of the kernel's structures. Where the fields lie, the running kernel's BTF says.
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sock {};

struct inet_connection_sock {
	void *icsk_ulp_data;
	__u64 icsk_ca_priv[13];
	__u8 icsk_ca_state : 5;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 snd_cwnd;
	__u32 snd_cwnd_cnt;
	__u32 snd_cwnd_clamp;
	__u32 snd_ssthresh;
	__u32 srtt_us;
	__u32 prior_cwnd;
	__u32 max_packets_out;
	__u8 is_cwnd_limited : 1;
	bool is_mptcp;
};

struct mptcp_subflow_context {
	struct sock *conn;
};

struct mptcp_sock {
	__u32 token;
};

struct tcp_congestion_ops {
	char name[16];
	__u32 flags;
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	void (*set_state)(struct sock *sk, __u8 new_state);
	__u32 (*undo_cwnd)(struct sock *sk);
};

#pragma clang attribute pop

#define TCP_CA_OPEN 0
#define TCP_CA_LOSS 4
// Any network namespace may use it: it takes no more than Reno.
#define TCP_CONG_NON_RESTRICTED 1

#define WINDOW_MAX 65535
#define WINDOW_MIN 2
#define ROUND_TRIP_BITS 12
#define RATE_BITS 14

// Since Linux 6.2.
extern void *bpf_rdonly_cast(const void *object, __u32 type) __ksym;

const volatile struct settings settings SEC(".rodata.settings") = {};

struct connection {
	struct bpf_spin_lock lock;
	__u32 reserved;
	__u64 sequence;
	struct subflow subflows[SUBFLOWS_MAX];
};

#define CONNECTIONS_MAX 65536

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, CONNECTIONS_MAX);
	__type(key, __u32);
	__type(value, struct connection);
} connections SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} events SEC(".maps");

// Sockets so far, and events that found no room.
__u64 sockets = 0;
__u64 events_lost = 0;

#define always static inline __attribute__((always_inline))

always __u64 counted(const struct subflow *one)
{
	return one->window < WINDOW_MAX ? one->window : WINDOW_MAX;
}

always __u64 at_least(__u64 value, __u64 least)
{
	return value > least ? value : least;
}

// Of all subflows: the sum of windows, and the shortest round trip; 0: none is known.
always __u64 total(const struct subflow *all)
{
	__u64 sum = 0;

	for (int i = 0; i < SUBFLOWS_MAX; i++)
		if (all[i].number)
			sum += counted(&all[i]);
	return sum;
}

always __u64 shortest_us(const struct subflow *all)
{
	__u64 shortest = 0;

	for (int i = 0; i < SUBFLOWS_MAX; i++)
		if (all[i].number && all[i].srtt_us && (!shortest || all[i].srtt_us < shortest))
			shortest = all[i].srtt_us;
	return shortest;
}

// The shortest round trip divided by this one's.
always __u64 ratio(const struct subflow *one, __u64 shortest)
{
	return (shortest << ROUND_TRIP_BITS) / one->srtt_us;
}

always __u64 linked_price(const struct subflow *all, const struct subflow *own)
{
	__u64 sum = 0, best = 1, shortest = shortest_us(all);

	if (!own->srtt_us)
		return own->window;
	for (int i = 0; i < SUBFLOWS_MAX; i++) {
		__u64 r, w;

		if (!all[i].number || !all[i].srtt_us)
			continue;
		r = ratio(&all[i], shortest);
		w = counted(&all[i]);
		sum += w * r;
		best = at_least(w * r * r, best);
	}
	return at_least(sum * sum / best, own->window);
}

struct rates {
	__u64 sum;
	__u64 own; // the largest is 1 << RATE_BITS
};

always void rates(const struct subflow *all, const struct subflow *own, struct rates *out)
{
	__u64 fastest = 1, shortest = shortest_us(all);

	out->sum = 0;
	out->own = 0;
	if (!own->srtt_us)
		return;
	for (int i = 0; i < SUBFLOWS_MAX; i++)
		if (all[i].number && all[i].srtt_us)
			fastest = at_least(counted(&all[i]) * ratio(&all[i], shortest), fastest);
	for (int i = 0; i < SUBFLOWS_MAX; i++)
		if (all[i].number && all[i].srtt_us)
			out->sum += ((counted(&all[i]) * ratio(&all[i], shortest)) << RATE_BITS) / fastest;
	out->own = ((counted(own) * ratio(own, shortest)) << RATE_BITS) / fastest;
}

always __u64 balanced_price(const struct subflow *all, const struct subflow *own)
{
	const __u64 fastest = 1 << RATE_BITS;
	struct rates x;

	rates(all, own, &x);
	if (!x.sum)
		return own->window;
	return 10 * x.sum * x.sum * counted(own) / ((x.own + fastest) * (4 * x.own + fastest));
}

// Segments that must be acknowledged for one of growth.
always __u64 price(const struct subflow *all, const struct subflow *own)
{
	__u64 price;

	switch (settings.scheme) {
	case LIA:
		price = linked_price(all, own);
		break;
	case COUPLED_INCREASE:
	case FULLY_COUPLED:
		price = total(all);
		break;
	case BALIA:
		price = balanced_price(all, own);
		break;
	default:
		price = own->window;
	}
	return at_least(price, 1);
}

always __u32 balanced_threshold(const struct subflow *all, const struct subflow *own)
{
	__u64 a = 1 << RATE_BITS;
	struct rates x;

	rates(all, own, &x);
	if (x.sum) {
		a = (1ULL << (2 * RATE_BITS)) / at_least(x.own, 1);
		if (a > 3 << (RATE_BITS - 1))
			a = 3 << (RATE_BITS - 1);
	}
	return own->window - counted(own) * a / (2 << RATE_BITS);
}

always __u32 threshold(const struct subflow *all, const struct subflow *own)
{
	__u64 left, half;

	switch (settings.scheme) {
	case FULLY_COUPLED:
	case COUPLED_DECREASE:
		half = total(all) / 2;
		left = own->window > half ? own->window - half : 0;
		break;
	case BALIA:
		left = balanced_threshold(all, own);
		break;
	default:
		left = own->window / 2;
	}
	return at_least(left, WINDOW_MIN);
}

// The kernel's tcp_slow_start: what of the acknowledged is left for congestion avoidance.
always __u32 slow_start(struct subflow *own, __u32 acked)
{
	__u64 grown = (__u64)own->window + acked;

	if (own->window >= own->ssthresh)
		return acked;
	if (grown > own->ssthresh)
		grown = own->ssthresh;
	acked -= grown - own->window;
	own->window = grown;
	return acked;
}

// The kernel's tcp_cong_avoid_ai.
always void avoid_congestion(struct subflow *own, __u32 acked, __u64 price)
{
	if (own->credit >= price) {
		own->credit = 0;
		own->window++;
	}
	own->credit += acked;
	own->window += own->credit / price;
	own->credit %= price;
}

always void grow(const struct subflow *all, struct subflow *own, __u32 acked)
{
	acked = slow_start(own, acked);
	if (acked)
		avoid_congestion(own, acked, price(all, own));
}

always void lose(const struct subflow *all, struct subflow *own)
{
	own->window = own->ssthresh = threshold(all, own);
	own->credit = 0;
}

// The kernel's side.

always struct own *own_of(struct sock *sk)
{
	return (struct own *)((struct tcp_sock *)sk)->inet_conn.icsk_ca_priv;
}

// The token of the connection of which this is a subflow; 0 when it is none.
always __u32 token_of(struct tcp_sock *tp)
{
	struct mptcp_subflow_context *subflow;
	struct mptcp_sock *connection;

	if (!bpf_core_type_exists(struct mptcp_sock) || !tp->is_mptcp)
		return 0;
	subflow = bpf_rdonly_cast(tp->inet_conn.icsk_ulp_data,
				  bpf_core_type_id_kernel(struct mptcp_subflow_context));
	connection = bpf_rdonly_cast(subflow->conn, bpf_core_type_id_kernel(struct mptcp_sock));
	return connection->token;
}

always void look(struct tcp_sock *tp, struct subflow *own)
{
	own->window = tp->snd_cwnd;
	own->ssthresh = tp->snd_ssthresh;
	own->credit = tp->snd_cwnd_cnt;
	own->srtt_us = tp->srtt_us >> 3;
}

// What handles an event holds the connection's lock; so events of a connection have an order.
struct step {
	struct subflow before;
	struct subflow after;
	__u64 sequence;
};

always void tell(struct tcp_sock *tp, const struct own *own, __u32 kind, __u32 a, __u32 b,
		 const struct step *step)
{
	struct event *event;

	if (!settings.is_test)
		return;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		__sync_fetch_and_add(&events_lost, 1);
		return;
	}
	event->sequence = step->sequence;
	event->number = own->number;
	event->token = own->token;
	event->kind = kind;
	event->place = own->place;
	event->a = a;
	event->b = b;
	event->state = BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state);
	event->before = step->before;
	event->after = step->after;
	bpf_ringbuf_submit(event, 0);
}

// Gives the socket a place in its connection.
always void join(struct tcp_sock *tp, struct own *own)
{
	static const struct connection none = {};
	struct connection *connection;
	struct step step = {};
	__u32 token = token_of(tp), place = SUBFLOWS_MAX;

	own->state = ALONE;
	if (!token)
		return;
	bpf_map_update_elem(&connections, &token, &none, BPF_NOEXIST);
	connection = bpf_map_lookup_elem(&connections, &token);
	if (!connection)
		return;
	if (!own->number)
		own->number = __sync_fetch_and_add(&sockets, 1) + 1;
	step.after.number = own->number;
	look(tp, &step.after);
	bpf_spin_lock(&connection->lock);
	for (int i = 0; i < SUBFLOWS_MAX; i++)
		if (place == SUBFLOWS_MAX && !connection->subflows[i].number) {
			connection->subflows[i] = step.after;
			place = i;
		}
	step.sequence = ++connection->sequence;
	bpf_spin_unlock(&connection->lock);
	if (place == SUBFLOWS_MAX)
		return;
	own->token = token;
	own->place = place;
	own->state = COUPLED;
	tell(tp, own, EVENT_JOIN, 0, 0, &step);
}

// Handles an event of a socket; what becomes of it stands in `step`.
always void handle(struct sock *sk, __u32 kind, __u32 a, __u32 b, struct step *step)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct own *own = own_of(sk);
	struct connection *connection = 0;
	__u32 place;

	if (own->state == READY)
		join(tp, own);
	step->before.number = own->number;
	look(tp, &step->before);
	step->after = step->before;
	if (own->state == COUPLED) {
		__u32 token = own->token;

		connection = bpf_map_lookup_elem(&connections, &token);
		if (!connection)
			// Another subflow that left took it along: the next event joins anew.
			own->state = READY;
	}
	place = own->place & (SUBFLOWS_MAX - 1);
	if (connection) {
		struct subflow *mine = &connection->subflows[place];

		bpf_spin_lock(&connection->lock);
		if (mine->number == own->number) {
			*mine = step->before;
			if (kind == EVENT_ACK && b)
				grow(connection->subflows, mine, a);
			else if (kind == EVENT_LOSS)
				lose(connection->subflows, mine);
			else if (kind == EVENT_UNDO && a > mine->window)
				mine->window = a;
			step->after = *mine;
		} else {
			own->state = READY;
		}
		step->sequence = ++connection->sequence;
		bpf_spin_unlock(&connection->lock);
	}
	if (own->state == COUPLED) {
		tell(tp, own, kind, a, b, step);
		return;
	}
	// Alone: Reno.
	if (kind == EVENT_ACK && b) {
		a = slow_start(&step->after, a);
		if (a)
			avoid_congestion(&step->after, a, at_least(step->after.window, 1));
	} else if (kind == EVENT_LOSS) {
		step->after.ssthresh = at_least(step->after.window / 2, WINDOW_MIN);
	} else if (kind == EVENT_UNDO && a > step->after.window) {
		step->after.window = a;
	}
}

// The kernel's tcp_is_cwnd_limited.
always __u32 is_window_limited(struct tcp_sock *tp)
{
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return 1;
	return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

SEC("struct_ops")
void BPF_PROG(coupled_init, struct sock *sk)
{
	own_of(sk)->state = READY;
}

SEC("struct_ops")
void BPF_PROG(coupled_release, struct sock *sk)
{
	struct own *own = own_of(sk);
	struct connection *connection;
	__u32 token = own->token, place = own->place & (SUBFLOWS_MAX - 1), left = 0;
	struct step step = {};

	if (own->state != COUPLED)
		return;
	own->state = ALONE;
	connection = bpf_map_lookup_elem(&connections, &token);
	if (!connection)
		return;
	bpf_spin_lock(&connection->lock);
	if (connection->subflows[place].number == own->number)
		connection->subflows[place].number = 0;
	for (int i = 0; i < SUBFLOWS_MAX; i++)
		left |= connection->subflows[i].number != 0;
	step.sequence = ++connection->sequence;
	bpf_spin_unlock(&connection->lock);
	tell((struct tcp_sock *)sk, own, EVENT_LEAVE, 0, 0, &step);
	if (!left)
		bpf_map_delete_elem(&connections, &token);
}

SEC("struct_ops")
void BPF_PROG(coupled_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u32 limited = is_window_limited(tp);
	struct step step = {};

	handle(sk, EVENT_ACK, acked, limited, &step);
	if (!limited)
		return;
	if (step.after.window > tp->snd_cwnd_clamp)
		step.after.window = tp->snd_cwnd_clamp;
	tp->snd_cwnd = step.after.window;
	tp->snd_cwnd_cnt = step.after.credit;
}

SEC("struct_ops")
__u32 BPF_PROG(coupled_ssthresh, struct sock *sk)
{
	struct step step = {};

	handle(sk, EVENT_LOSS, 0, 0, &step);
	return step.after.ssthresh;
}

SEC("struct_ops")
void BPF_PROG(coupled_set_state, struct sock *sk, __u8 new_state)
{
	struct step step = {};

	if (new_state == TCP_CA_LOSS)
		handle(sk, EVENT_TIMEOUT, 0, 0, &step);
}

SEC("struct_ops")
__u32 BPF_PROG(coupled_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct step step = {};

	handle(sk, EVENT_UNDO, tp->prior_cwnd, 0, &step);
	return step.after.window;
}

// The name is set by who loads it.
SEC(".struct_ops.link")
struct tcp_congestion_ops coupled = {
	.name = "coupled",
	.flags = TCP_CONG_NON_RESTRICTED,
	.init = (void *)coupled_init,
	.release = (void *)coupled_release,
	.ssthresh = (void *)coupled_ssthresh,
	.cong_avoid = (void *)coupled_cong_avoid,
	.set_state = (void *)coupled_set_state,
	.undo_cwnd = (void *)coupled_undo_cwnd,
};

// The arithmetic alone, on what a test has written.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct trial);
} trials SEC(".maps");

SEC("?tc")
int coupled_trial(struct __sk_buff *packet)
{
	__u32 first = 0;
	struct trial *trial = bpf_map_lookup_elem(&trials, &first);
	struct subflow *own;

	(void)packet;
	if (!trial)
		return 1;
	own = &trial->subflows[trial->place & (SUBFLOWS_MAX - 1)];
	if (trial->kind == EVENT_ACK)
		grow(trial->subflows, own, trial->acked);
	else if (trial->kind == EVENT_LOSS)
		lose(trial->subflows, own);
	return 0;
}
