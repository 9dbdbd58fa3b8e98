// SPDX-License-Identifier: GPL-2.0
// `adaptive` as a congestion control of a server's kernel.
//
//        ACK ──────▶ cong_control ──┐                    ┌──▶ snd_cwnd
//        time-out ─▶ set_state    ──┼──▶ law.h, in the ──┤
//        begin ────▶ init         ──┘    socket's state  └──▶ sk_pacing_rate
//
// law.h is the law; this file is the kernel's side of it. Linux 6.10 gave cong_control two more arguments, so there are
// two congestion controls here, of which the loader takes the one that the running kernel's types ask for.

#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "congestion.h"

char LICENSE[] SEC("license") = "GPL";

// What is used of the kernel's structures. Where the fields lie, the running kernel's BTF says.
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr {
	union {
		__u8 u6_addr8[16];
	} in6_u;
};

struct sock_common {
	__u32 skc_daddr;
	__u16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	struct in6_addr skc_v6_daddr;
};

struct sock {
	struct sock_common __sk_common;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	__u32 sk_pacing_status;
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 snd_cwnd;
	__u32 snd_cwnd_clamp;
	__u32 snd_ssthresh;
	__u32 srtt_us;
	__u32 mss_cache;
	__u32 packets_out;
	__u32 delivered;
	__u64 tcp_mstamp;
	__u8 is_cwnd_limited : 1;
};

struct rate_sample {
	long rtt_us;
	int losses;
	__u32 acked_sacked;
	__u32 prior_in_flight;
};

#pragma clang attribute pop

// Of the structures that the kernel takes as they are, in its own layout by libbpf.
struct tcp_congestion_ops {
	char name[16];
	__u32 flags;
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	__u32 (*ssthresh)(struct sock *sk);
	void (*set_state)(struct sock *sk, __u8 new_state);
	__u32 (*undo_cwnd)(struct sock *sk);
	void (*cong_control)(struct sock *sk); // and what the running kernel has besides
};

#define AF_INET6 10
#define TCP_CA_LOSS 4
#define SK_PACING_NONE 0
#define SK_PACING_NEEDED 1
// Any network namespace may use it.
#define TCP_CONG_NON_RESTRICTED 1

// A connection is shown at most every so many microseconds.
#define SHOWN_EVERY_US 100000
#define SHOWN_MAX 8192
// Destinations; of more, each connection is for itself.
#define PATHS_MAX 65536

const volatile struct settings settings SEC(".rodata.settings") = {};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct connection);
} states SEC(".maps");

// Connections by number: the ones that were heard of last, where there are more.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, SHOWN_MAX);
	__type(key, __u64);
	__type(value, struct shown);
} connections SEC(".maps");

// Destinations: bpf/congestion.h.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PATHS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct path_key);
	__type(value, struct shared_path);
} paths SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} events SEC(".maps");

// Connections so far, events that found no room, and paths so far.
__u64 sockets = 0;
__u64 events_lost = 0;
__u64 paths_made = 0;

always void tell(const struct tcp_sock *tp, struct connection *own, __u64 kind, const struct ack_event *ack,
		 const struct peers *peers)
{
	struct event *event;

	if (!settings.is_test)
		return;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		__sync_fetch_and_add(&events_lost, 1);
		return;
	}
	event->number = own->member.number;
	event->sequence = ++own->sequence;
	event->kind = kind;
	event->mss = own->law.mss;
	event->ack = *ack;
	if (peers)
		event->peers = *peers;
	else
		__builtin_memset(&event->peers, 0, sizeof(event->peers));
	event->window = own->law.window;
	event->pacing_rate = own->law.pacing_rate;
	event->cwnd = tp->snd_cwnd;
	bpf_ringbuf_submit(event, 0);
}

always void show(struct tcp_sock *tp, struct connection *own, __u64 now)
{
	struct sock *sk = (struct sock *)tp;
	struct shown shown = {};
	__u64 number = own->member.number;

	if (now - own->shown_us < SHOWN_EVERY_US)
		return;
	own->shown_us = now;
	shown.is_ipv6 = sk->__sk_common.skc_family == AF_INET6;
	if (shown.is_ipv6)
		BPF_CORE_READ_INTO(&shown.remote, sk, __sk_common.skc_v6_daddr.in6_u.u6_addr8);
	else
		*(__u32 *)shown.remote = sk->__sk_common.skc_daddr;
	shown.remote_port = __builtin_bswap16(sk->__sk_common.skc_dport);
	shown.local_port = sk->__sk_common.skc_num;
	shown.others = smaller(own->law.others, 65535);
	shown.bound = own->law.bound;
	shown.rtt_us = tp->srtt_us >> 3;
	shown.at_us = now;
	shown.window = own->law.window;
	shown.average = own->law.average;
	shown.forecast = own->law.forecast;
	shown.floor_us = own->law.floor_us;
	shown.delivered = tp->delivered;
	bpf_map_update_elem(&connections, &number, &shown, BPF_ANY);
}

// Sets what the law says.
always void obey(struct tcp_sock *tp, const struct law *law)
{
	struct sock *sk = (struct sock *)tp;
	__u64 window = (law->window + law->mss - 1) / larger(law->mss, 1);

	tp->snd_cwnd = smaller(larger(window, 1), tp->snd_cwnd_clamp);
	if (law->floor_us)
		sk->sk_pacing_rate = smaller(law->pacing_rate, sk->sk_max_pacing_rate);
}

always void key_of(const struct sock *sk, struct path_key *key)
{
	struct {
		__u64 network;
		__u32 mapped; // 0:ffff, of an IPv4 address at an IPv6 socket
		__u32 host;
	} address;

	key->is_ipv6 = 0;
	key->address = sk->__sk_common.skc_daddr;
	if (sk->__sk_common.skc_family != AF_INET6)
		return;
	BPF_CORE_READ_INTO(&address, sk, __sk_common.skc_v6_daddr.in6_u.u6_addr8);
	key->is_ipv6 = address.network || address.mapped != bpf_htonl(0xffff);
	key->address = key->is_ipv6 ? address.network : address.host;
}

// The path that counts a connection, if it is still there.
always struct shared_path *path_of(const struct sock *sk, const struct connection *own)
{
	struct shared_path *shared;
	struct path_key key;

	if (!own->path)
		return 0;
	key_of(sk, &key);
	shared = bpf_map_lookup_elem(&paths, &key);
	return shared && shared->number == own->path ? shared : 0;
}

// Has a path count a connection; 0 where there is no room for one.
always struct shared_path *join_path(const struct sock *sk, struct connection *own)
{
	struct shared_path *shared;
	struct path_key key;

	key_of(sk, &key);
	shared = bpf_map_lookup_elem(&paths, &key);
	if (!shared) {
		struct shared_path new = {};

		new.number = __sync_fetch_and_add(&paths_made, 1) + 1;
		bpf_map_update_elem(&paths, &key, &new, BPF_NOEXIST);
		shared = bpf_map_lookup_elem(&paths, &key);
		if (!shared)
			return 0;
	}
	__sync_fetch_and_add(&shared->connections, 1);
	own->path = shared->number;
	return shared;
}

always void leave_path(const struct sock *sk, struct connection *own)
{
	struct shared_path *shared = path_of(sk, own);

	if (shared) {
		leave(&own->member, &shared->path);
		__sync_fetch_and_add(&shared->connections, -1);
	}
	own->path = 0;
}

// Exchanges with the other connections of the path what there is to say.
always void share(struct tcp_sock *tp, struct connection *own, __u64 now)
{
	struct shared_path *shared = path_of((struct sock *)tp, own);
	struct ack_event ack = {};
	struct peers peers;

	if (!shared) {
		// It has been swept away: what was said there is gone with it.
		__builtin_memset(&own->member.given, 0, sizeof(own->member.given));
		own->member.leader = 0;
		own->member.is_joined = 0;
		own->law.others = 0;
		shared = join_path((struct sock *)tp, own);
		if (!shared)
			return;
	}
	if (!exchange(&own->member, &own->law, &shared->path, now, &peers))
		return;
	on_peers(&own->law, &peers, now);
	ack.now_us = now;
	tell(tp, own, EVENT_PEERS, &ack, &peers);
}

// The state of a connection, which begins here where it has none; 0 while there is no memory for it.
always struct connection *state_of(struct tcp_sock *tp)
{
	struct connection *own = bpf_sk_storage_get(&states, tp, 0, BPF_SK_STORAGE_GET_F_CREATE);
	struct shared_path *shared;
	struct ack_event ack = {};

	if (!own || own->member.number)
		return own;
	own->member.number = __sync_fetch_and_add(&sockets, 1) + 1;
	own->member.is_drained = 1;
	own->sequence = 0;
	begin(&own->law, tp->mss_cache);
	ack.now_us = tp->tcp_mstamp;
	ack.rtt_us = tp->srtt_us >> 3;
	on_handshake(&own->law, ack.rtt_us, ack.now_us);
	shared = join_path((struct sock *)tp, own);
	if (shared) {
		ack.delivered = start_window_of(&shared->path, own->law.mss, ack.now_us);
		on_hint(&own->law, ack.delivered);
	}
	tell(tp, own, EVENT_BEGIN, &ack, 0);
	return own;
}

SEC("struct_ops")
void BPF_PROG(adaptive_init, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct connection *own = bpf_sk_storage_get(&states, tp, 0, 0);

	if (own) {
		// It has had this congestion control before: what was learnt then is old.
		leave_path(sk, own);
		__builtin_memset(&own->member, 0, sizeof(own->member));
	}
	own = state_of(tp);
	// Without fq the kernel paces by itself.
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
	if (!own || !own->law.floor_us)
		return;
	sk->sk_pacing_rate = smaller(own->law.pacing_rate, sk->sk_max_pacing_rate);
	// More than the kernel's own first window, unless that is smaller for a SYN that was lost.
	if (tp->snd_cwnd >= INITIAL_SEGMENTS)
		obey(tp, &own->law);
}

SEC("struct_ops")
void BPF_PROG(adaptive_release, struct sock *sk)
{
	struct connection *own = bpf_sk_storage_get(&states, (struct tcp_sock *)sk, 0, 0);
	__u64 number;

	if (!own)
		return;
	number = own->member.number;
	bpf_map_delete_elem(&connections, &number);
	leave_path(sk, own);
}

always void control(struct sock *sk, const struct rate_sample *rs)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct connection *own = state_of(tp);
	struct ack_event ack = {};
	__u64 mss;

	if (!own)
		return;
	mss = smaller(larger(tp->mss_cache, 1), 65535);
	own->law.mss = mss;
	ack.now_us = tp->tcp_mstamp;
	ack.rtt_us = rs->rtt_us > 0 ? rs->rtt_us : 0;
	if (own->member.is_drained) {
		struct ack_event pause = {};

		// What is acknowledged now was sent after a pause, a round trip ago.
		pause.now_us = beyond(ack.now_us, ack.rtt_us);
		on_idle(&own->law, pause.now_us);
		tell(tp, own, EVENT_IDLE, &pause, 0);
	}
	own->member.is_drained = tp->packets_out == 0;
	ack.delivered = rs->acked_sacked * mss;
	ack.lost = rs->losses > 0 ? rs->losses * mss : 0;
	ack.in_flight_before = rs->prior_in_flight * mss;
	ack.is_limited = BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited) || rs->prior_in_flight >= tp->snd_cwnd;
	on_ack(&own->law, &ack);
	obey(tp, &own->law);
	tell(tp, own, EVENT_ACK, &ack, 0);
	if (sample(&own->member, &own->law, ack.rtt_us, ack.now_us)) {
		share(tp, own, ack.now_us);
		obey(tp, &own->law);
	}
	show(tp, own, ack.now_us);
}

// Since Linux 6.10.
SEC("struct_ops")
void BPF_PROG(adaptive_control_four, struct sock *sk, __u32 acknowledged, int flag, const struct rate_sample *rs)
{
	control(sk, rs);
}

SEC("struct_ops")
void BPF_PROG(adaptive_control_two, struct sock *sk, const struct rate_sample *rs)
{
	control(sk, rs);
}

// The window is the law's, also in a recovery.
SEC("struct_ops")
__u32 BPF_PROG(adaptive_ssthresh, struct sock *sk)
{
	return ((struct tcp_sock *)sk)->snd_ssthresh;
}

SEC("struct_ops")
__u32 BPF_PROG(adaptive_undo_cwnd, struct sock *sk)
{
	return ((struct tcp_sock *)sk)->snd_cwnd;
}

SEC("struct_ops")
void BPF_PROG(adaptive_set_state, struct sock *sk, __u8 new_state)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct ack_event ack = {};
	struct connection *own;

	if (new_state != TCP_CA_LOSS)
		return;
	own = bpf_sk_storage_get(&states, tp, 0, 0);
	if (!own || !own->member.number)
		return;
	ack.now_us = tp->tcp_mstamp;
	on_timeout(&own->law, ack.now_us);
	tell(tp, own, EVENT_TIMEOUT, &ack, 0);
	share(tp, own, ack.now_us);
}

// The names are set by who loads one of them.
SEC(".struct_ops.link")
struct tcp_congestion_ops adaptive_four = {
	.name = "adaptive",
	.flags = TCP_CONG_NON_RESTRICTED,
	.init = (void *)adaptive_init,
	.release = (void *)adaptive_release,
	.ssthresh = (void *)adaptive_ssthresh,
	.cong_control = (void *)adaptive_control_four,
	.set_state = (void *)adaptive_set_state,
	.undo_cwnd = (void *)adaptive_undo_cwnd,
};

SEC(".struct_ops.link")
struct tcp_congestion_ops adaptive_two = {
	.name = "adaptive",
	.flags = TCP_CONG_NON_RESTRICTED,
	.init = (void *)adaptive_init,
	.release = (void *)adaptive_release,
	.ssthresh = (void *)adaptive_ssthresh,
	.cong_control = (void *)adaptive_control_two,
	.set_state = (void *)adaptive_set_state,
	.undo_cwnd = (void *)adaptive_undo_cwnd,
};

// The arithmetic alone, on what a test has written.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct trial);
} trials SEC(".maps");

SEC("?tc")
int adaptive_trial(struct __sk_buff *packet)
{
	__u32 first = 0;
	struct trial *trial = bpf_map_lookup_elem(&trials, &first);

	(void)packet;
	if (!trial)
		return 1;
	switch (trial->kind) {
	case EVENT_BEGIN:
		begin(&trial->law, trial->mss);
		on_handshake(&trial->law, trial->ack.rtt_us, trial->ack.now_us);
		break;
	case EVENT_IDLE:
		on_idle(&trial->law, trial->ack.now_us);
		break;
	case EVENT_TIMEOUT:
		on_timeout(&trial->law, trial->ack.now_us);
		break;
	case EVENT_ACK:
		on_ack(&trial->law, &trial->ack);
		break;
	case EVENT_PEERS:
		on_peers(&trial->law, &trial->peers, trial->ack.now_us);
		break;
	case TRIAL_EXCHANGE:
		trial->is_due = sample(&trial->member, &trial->law, trial->ack.rtt_us, trial->ack.now_us);
		if (exchange(&trial->member, &trial->law, &trial->path, trial->ack.now_us, &trial->peers))
			on_peers(&trial->law, &trial->peers, trial->ack.now_us);
		break;
	case TRIAL_LEAVE:
		leave(&trial->member, &trial->path);
		break;
	case TRIAL_HINT:
		trial->ack.delivered = start_window_of(&trial->path, trial->mss, trial->ack.now_us);
		on_hint(&trial->law, trial->ack.delivered);
		break;
	}
	return 0;
}
