// SPDX-License-Identifier: GPL-2.0
// New connections in two groups by a keyed hash, each with a congestion control of its own, and what became of them.
//
//        established ─▶ hash ─▶ TCP_CONGESTION = the group's ─▶ running
//        round trip  ─────────▶ counted in running
//        closed      ─────────▶ counted, moved from running to ended
//
// Both groups are measured by the same lines.

#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "compare.h"

char LICENSE[] SEC("license") = "GPL";

#define always static inline __attribute__((always_inline))

#define AF_INET6 10
#define IPPROTO_TCP 6
#define TCP_CONGESTION 13
#define NO_ROUND_TRIP ((__u32)-1)

#define RUNNING_MAX 65536
#define ENDED_BYTES (1 << 22)

// What is used of the kernel's structure. Where the fields lie, the running kernel's BTF says.
struct tcp_sock {
	__u32 chrono_start;
	__u32 chrono_stat[3];
	__u8 chrono_type : 2;
} __attribute__((preserve_access_index));

const volatile struct settings settings SEC(".rodata.settings") = {};

// Connections by cookie.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, RUNNING_MAX);
	__type(key, __u64);
	__type(value, struct measured);
} running SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, ENDED_BYTES);
} ended SEC(".maps");

struct counts counts = {};

// SplitMix64's output function: every bit of the result depends on every bit of the argument.
always __u64 mix(__u64 x)
{
	x += 0x9e3779b97f4a7c15ULL;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

always __u32 group_of(const struct ends *ends)
{
	__u64 hash = mix(mix(mix(settings.seed) ^ ends->network) ^ ends->is_ipv6);

	if (!settings.is_by_client) {
		hash = mix(mix(hash ^ ends->host) ^ ends->ports);
		hash = mix(mix(hash ^ ends->own_network) ^ ends->own_host);
	}
	return hash >> 63;
}

always __u64 joined(__u32 first, __u32 second)
{
	return (__u64)bpf_ntohl(first) << 32 | bpf_ntohl(second);
}

always void find_ends(struct bpf_sock_ops *ctx, struct ends *ends)
{
	ends->ports = (__u64)ctx->local_port << 32 | bpf_ntohl(ctx->remote_port);
	if (ctx->family == AF_INET6) {
		// The verifier wants fields of the context read one by one.
		volatile __u32 *remote = ctx->remote_ip6, *local = ctx->local_ip6;
		__u32 a = remote[0], b = remote[1], c = remote[2], d = remote[3];
		__u32 own_a = local[0], own_b = local[1], own_c = local[2], own_d = local[3];

		if (!a && !b && c == bpf_htonl(0xffff)) {
			// IPv4 at a socket of IPv6: most servers have one for both.
			ends->network = bpf_ntohl(d);
			ends->own_network = bpf_ntohl(own_d);
			return;
		}
		ends->is_ipv6 = 1;
		ends->network = joined(a, b);
		ends->host = joined(c, d);
		ends->own_network = joined(own_a, own_b);
		ends->own_host = joined(own_c, own_d);
		return;
	}
	ends->network = bpf_ntohl(ctx->remote_ip4);
	ends->own_network = bpf_ntohl(ctx->local_ip4);
}

// Jiffies in which data was sent or waited for acknowledgements, as tcpi_busy_time counts them.
always __u64 busy(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	struct tcp_sock *tp;
	__u64 sum;

	if (!sk)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	sum = (__u64)tp->chrono_stat[0] + tp->chrono_stat[1] + tp->chrono_stat[2];
	if (BPF_CORE_READ_BITFIELD(tp, chrono_type))
		sum += (__u32)bpf_jiffies64() - tp->chrono_start;
	return sum;
}

always void look(struct bpf_sock_ops *ctx, struct measured *own)
{
	__u32 least = ctx->rtt_min;

	own->acknowledged = ctx->bytes_acked - own->acknowledged_before;
	own->segments = ctx->data_segs_out;
	own->resent = ctx->total_retrans - own->resent_before;
	own->busy = busy(ctx);
	if (least != NO_ROUND_TRIP && least && (!own->rtt_min_us || least < own->rtt_min_us))
		own->rtt_min_us = least;
}

always void begin(struct bpf_sock_ops *ctx)
{
	struct measured own = {};
	struct ends ends = {};
	char name[16] = {};
	__u32 group;

	if (bpf_get_netns_cookie(ctx) != settings.network)
		return;
	if (settings.local_port && ctx->local_port != settings.local_port)
		return;
	if (settings.has_mptcp) {
		struct bpf_sock *sk = ctx->sk;

		if (!sk || bpf_skc_to_mptcp_sock(sk))
			return;
	}
	find_ends(ctx, &ends);
	group = group_of(&ends) & 1;
	for (int i = 0; i < 16; i++)
		name[i] = group ? settings.controls[1][i] : settings.controls[0][i];
	if (bpf_setsockopt(ctx, IPPROTO_TCP, TCP_CONGESTION, name, sizeof(name))) {
		// What is refused stays as it is, and is in no group.
		__sync_fetch_and_add(&counts.refused[group], 1);
		return;
	}
	__sync_fetch_and_add(&counts.began[group], 1);
	own.cookie = bpf_get_socket_cookie(ctx);
	own.network = ends.network;
	own.is_ipv6 = ends.is_ipv6;
	own.group = group;
	own.acknowledged_before = ctx->bytes_acked;
	own.resent_before = ctx->total_retrans;
	look(ctx, &own);
	if (bpf_map_update_elem(&running, &own.cookie, &own, BPF_ANY)) {
		__sync_fetch_and_add(&counts.lost, 1);
		return;
	}
	bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_RTT_CB_FLAG |
					       BPF_SOCK_OPS_STATE_CB_FLAG);
}

always void on_round_trip(struct bpf_sock_ops *ctx)
{
	__u64 cookie = bpf_get_socket_cookie(ctx);
	struct measured *own = bpf_map_lookup_elem(&running, &cookie);

	if (!own)
		return;
	look(ctx, own);
	own->rtt_sum_us += ctx->srtt_us >> 3;
	own->rtt_samples++;
}

always void end(struct bpf_sock_ops *ctx)
{
	__u64 cookie = bpf_get_socket_cookie(ctx);
	struct measured *own = bpf_map_lookup_elem(&running, &cookie);

	if (!own)
		return;
	look(ctx, own);
	if (bpf_ringbuf_output(&ended, own, sizeof(*own), 0))
		__sync_fetch_and_add(&counts.lost, 1);
	// Only then: whoever looks at both finds it in one of them.
	bpf_map_delete_elem(&running, &cookie);
}

SEC("sockops")
int compare(struct bpf_sock_ops *ctx)
{
	switch (ctx->op) {
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		begin(ctx);
		break;
	case BPF_SOCK_OPS_RTT_CB:
		on_round_trip(ctx);
		break;
	case BPF_SOCK_OPS_STATE_CB:
		if (ctx->args[1] == BPF_TCP_CLOSE)
			end(ctx);
		break;
	}
	return 1;
}

// The choice alone, on what a test has written.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct trial);
} trials SEC(".maps");

SEC("?tc")
int compare_trial(struct __sk_buff *packet)
{
	__u32 first = 0;
	struct trial *trial = bpf_map_lookup_elem(&trials, &first);

	(void)packet;
	if (!trial)
		return 1;
	trial->group = group_of(&trial->ends);
	return 0;
}
