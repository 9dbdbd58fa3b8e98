// SPDX-License-Identifier: GPL-2.0
// DRWA at the receiver: a dynamic receive window that ends bufferbloat on an unmodified client.
//
// Two programs on one interface. What comes in gives round trips; what goes out gives the bytes that
// were delivered in order, and gets its window field lowered:
//
//        server ── data, TSecr ──▶ drwa_in ──▶ kernel TCP ──▶ application
//               ◀── ACK, window ── drwa_out ◀── kernel TCP
//
// Once per RTT_est, when data has been acknowledged ([DR]):
//
//        RTT_min  = min(RTT_min, RTT_est)
//        cwnd_est = alpha * cwnd_est + (1 - alpha) * data          first round: cwnd_est = data
//        rwnd     = lambda * (RTT_min / RTT_est) * cwnd_est        at least 2 MSS
//
// The right edge never moves back (RFC 9293 3.8.6), and no window is larger than the kernel's own.
// So the program may go at any packet.
//
// crates/core/control/src/drwa/receiver.rs is the same algorithm in Rust; tests/equality.rs lets both
// handle the same segments, and compares every number after each.

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "drwa.h"

char LICENSE[] SEC("license") = "GPL";

const volatile struct settings settings SEC(".rodata.settings") = {};
// The time, when tests say it.
volatile __u64 test_now_us = 0;

// A connection of which nothing is known: too large for the stack.
static const volatile struct connection nothing = {};

#define CONNECTIONS_MAX 16384
#define PEERS_MAX 1024

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, CONNECTIONS_MAX);
	__type(key, struct key);
	__type(value, struct connection);
} connections SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, PEERS_MAX);
	__type(key, __u8[16]);
	__type(value, struct peer);
} peers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct shared);
} shared_state SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} counts SEC(".maps");

#define NEXT -1 // the next program, or the kernel: TCX_NEXT, TC_ACT_UNSPEC

#define FIN 0x01
#define SYN 0x02
#define RST 0x04
#define ACK 0x10

#define OPTION_MSS 2
#define OPTION_SCALE 3
#define OPTION_TIMESTAMPS 8
#define OPTION_MPTCP 30

#define TCP_HEADER_LEN 20
#define OPTIONS_MAX 16 // with paddings; Linux sends at most seven
#define TIMESTAMPS_LEN 12
#define MSS_DEFAULT 536 // RFC 9293 3.7.1
#define SCALE_MAX 14 // RFC 7323 2.3
#define WINDOW_MAX (1u << 30)
#define RTT_MAX_US 60000000ull
#define DATA_MAX 0xffffffffull
#define FRACTION_BITS 8
#define CWND_MAX ((__u64)WINDOW_MAX << FRACTION_BITS)
// A connection that waits for data longer than this without knowing its round trip is idle.
// In the first round the server waits; what it sends after that comes in the second.
#define PROBE_ROUNDS 2
#define PAUSE_US 1000000ull
// How long TSvals are watched until it is known what they count.
#define TICK_TIME_US 100000ull
#define SLOT_SHIFT 20 // slots of 2^20 microseconds
#define PEER_FORGOTTEN_US 60000000ull

#define COUNT(field, number)                                        \
	do {                                                        \
		__u32 zero_ = 0;                                    \
		struct counters *c_ = bpf_map_lookup_elem(&counts, &zero_); \
		if (c_)                                             \
			__sync_fetch_and_add(&c_->field, (number)); \
	} while (0)

// What of a segment matters.
struct segment {
	struct key key;
	__u32 seq;
	__u32 ack;
	__u32 payload_len;
	__u32 tcp_at; // offset of the TCP header in the packet
	__u32 tcp_len;
	__u16 window;
	__u8 flags;
	__u8 has_timestamps;
	__u32 tsval;
	__u32 tsecr;
};

// Options: where they are, and what they say.
struct options {
	__u32 tcp_at;
	__u32 tcp_len;
	__u32 tsval;
	__u32 tsecr;
	__u32 mss;
	__u8 scale;
	__u8 has_scale;
	__u8 has_timestamps;
	__u8 has_mptcp;
};

static __always_inline __u64 time_us(void)
{
	return settings.is_test ? test_now_us : bpf_ktime_get_ns() / 1000;
}

static __always_inline int is_before(__u32 a, __u32 b)
{
	return (__s32)(a - b) < 0;
}

static __always_inline __u64 least(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

static __always_inline __u64 most(__u64 a, __u64 b)
{
	return a > b ? a : b;
}

// Reads the headers; 0 when this is a whole TCP segment.
static __always_inline int read_segment(struct __sk_buff *skb, struct segment *s, int is_out)
{
	__u32 at = settings.link_header_len;
	__u32 total, tcp_at;
	__u8 tcp[TCP_HEADER_LEN];
	__u8 *source = is_out ? s->key.local : s->key.remote;
	__u8 *destination = is_out ? s->key.remote : s->key.local;

	__builtin_memset(s, 0, sizeof(*s));
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		__u8 ip[20];

		if (bpf_skb_load_bytes(skb, at, ip, sizeof(ip)))
			return -1;
		// A fragment has no whole TCP header, or not all of its payload.
		if (ip[0] >> 4 != 4 || ip[9] != IPPROTO_TCP || (ip[6] & 0x3f) || ip[7])
			return -1;
		tcp_at = at + (ip[0] & 15) * 4;
		total = skb->len - at;
		// A short packet is padded on Ethernet; a super-packet may say 0.
		__u32 said = ip[2] << 8 | ip[3];
		if (said && said < total)
			total = said;
		__builtin_memcpy(source, ip + 12, 4);
		__builtin_memcpy(destination, ip + 16, 4);
		s->key.family = 4;
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		__u8 ip[40];

		if (bpf_skb_load_bytes(skb, at, ip, sizeof(ip)))
			return -1;
		// TCP behind extension headers is rare, and left alone.
		if (ip[0] >> 4 != 6 || ip[6] != IPPROTO_TCP)
			return -1;
		tcp_at = at + 40;
		total = skb->len - at;
		__u32 said = ip[4] << 8 | ip[5];
		if (said && said + 40 < total)
			total = said + 40;
		__builtin_memcpy(source, ip + 8, 16);
		__builtin_memcpy(destination, ip + 24, 16);
		s->key.family = 6;
	} else {
		return -1;
	}
	if (bpf_skb_load_bytes(skb, tcp_at, tcp, sizeof(tcp)))
		return -1;
	s->tcp_at = tcp_at;
	s->tcp_len = (tcp[12] >> 4) * 4;
	if (s->tcp_len < TCP_HEADER_LEN || tcp_at - at + s->tcp_len > total)
		return -1;
	s->payload_len = total - (tcp_at - at) - s->tcp_len;
	__be16 from = tcp[0] | tcp[1] << 8, to = tcp[2] | tcp[3] << 8;
	s->key.local_port = is_out ? from : to;
	s->key.remote_port = is_out ? to : from;
	s->seq = (__u32)tcp[4] << 24 | tcp[5] << 16 | tcp[6] << 8 | tcp[7];
	s->ack = (__u32)tcp[8] << 24 | tcp[9] << 16 | tcp[10] << 8 | tcp[11];
	s->flags = tcp[13];
	s->window = tcp[14] << 8 | tcp[15];
	return 0;
}

static __always_inline __u32 number(const __u8 *bytes)
{
	return (__u32)bytes[0] << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
}

// Walks the options. A function that the verifier checks once, and not at each of its calls.
__noinline int read_options(struct __sk_buff *skb, struct options *o)
{
	__u32 at = TCP_HEADER_LEN;

	if (!o)
		return 0;
	for (int step = 0; step < OPTIONS_MAX; step++) {
		__u8 head[2] = {}, value[8] = {};

		// What lies behind the header is no option.
		if (at + 1 > o->tcp_len || bpf_skb_load_bytes(skb, o->tcp_at + at, head, 1) || head[0] == 0)
			return 0;
		if (head[0] == 1) {
			at += 1;
			continue;
		}
		if (at + 2 > o->tcp_len || bpf_skb_load_bytes(skb, o->tcp_at + at, head, 2) || head[1] < 2)
			return 0;
		if (head[1] <= 10 && at + head[1] <= o->tcp_len) {
			if (head[0] == OPTION_TIMESTAMPS && head[1] == 10) {
				if (bpf_skb_load_bytes(skb, o->tcp_at + at + 2, value, 8))
					return 0;
				o->has_timestamps = 1;
				o->tsval = number(value);
				o->tsecr = number(value + 4);
			} else if (head[0] == OPTION_MSS && head[1] == 4) {
				if (bpf_skb_load_bytes(skb, o->tcp_at + at + 2, value, 2))
					return 0;
				o->mss = value[0] << 8 | value[1];
			} else if (head[0] == OPTION_SCALE && head[1] == 3) {
				if (bpf_skb_load_bytes(skb, o->tcp_at + at + 2, value, 1))
					return 0;
				o->has_scale = 1;
				o->scale = value[0] < SCALE_MAX ? value[0] : SCALE_MAX;
			}
		}
		if (head[0] == OPTION_MPTCP)
			o->has_mptcp = 1;
		at += head[1];
	}
	return 0;
}

// The timestamps of a segment, where they are there.
static __always_inline void read_timestamps(struct __sk_buff *skb, struct segment *s)
{
	struct options o = { .tcp_at = s->tcp_at, .tcp_len = s->tcp_len };

	if (s->tcp_len == TCP_HEADER_LEN)
		return;
	read_options(skb, &o);
	s->has_timestamps = o.has_timestamps;
	s->tsval = o.tsval;
	s->tsecr = o.tsecr;
}

static __always_inline int matches(const volatile struct selection *wanted, const struct key *key)
{
	__u32 port = bpf_ntohs(key->remote_port);

	if (port < wanted->port_min || port > wanted->port_max)
		return 0;
	if (wanted->family == 0)
		return 1;
	if (wanted->family != key->family)
		return 0;
	for (__u32 i = 0; i < 16; i++) {
		__u32 bits = wanted->bits > 8 * i ? wanted->bits - 8 * i : 0;
		__u8 mask = bits >= 8 ? 0xff : (__u8)(0xff00 >> bits);

		if ((wanted->network[i] ^ key->remote[i]) & mask)
			return 0;
	}
	return 1;
}

static __noinline int is_selected(struct key *key)
{
	if (!key)
		return 0;
	if (settings.selections == 0)
		return 1;
	for (__u32 i = 0; i < SELECTIONS_MAX && i < settings.selections; i++) {
		if (matches(&settings.selection[i], key))
			return 1;
	}
	return 0;
}

// A connection that is seen for the first time.
static __always_inline struct connection *begin(const struct segment *s, __u32 flags, __u64 now)
{
	struct connection *c;

	if (bpf_map_update_elem(&connections, &s->key, (const void *)&nothing, BPF_ANY))
		return 0;
	c = bpf_map_lookup_elem(&connections, &s->key);
	if (c) {
		c->flags = flags;
		c->opened_us = now;
	}
	return c;
}

// Takes in a SYN or SYN-ACK, of this host (`is_out`) or the other.
static __always_inline void on_syn(struct __sk_buff *skb, struct segment *s, int is_out, __u64 now)
{
	struct options offer = { .tcp_at = s->tcp_at, .tcp_len = s->tcp_len, .mss = MSS_DEFAULT };
	struct connection *c = bpf_map_lookup_elem(&connections, &s->key);
	__u32 mine = is_out ? LOCAL_SYN : REMOTE_SYN;
	__u32 flags;

	// Without ACK it opens a connection, unless it repeats the SYN that did.
	if (!(s->flags & ACK)) {
		int is_repeated = c && (c->flags & mine) && !(c->flags & (SHAKEN | LATE)) &&
				  (is_out ? c->local_isn : c->remote_isn) == s->seq;
		if (!is_repeated)
			c = begin(s, is_selected(&s->key) ? 0 : UNSELECTED, now);
	}
	if (!c || (c->flags & (UNSELECTED | LATE)))
		return;
	read_options(skb, &offer);
	flags = c->flags | mine;
	if (is_out) {
		flags |= offer.has_scale ? LOCAL_SCALE : 0;
		flags |= offer.has_timestamps ? LOCAL_TIMESTAMPS : 0;
		flags |= offer.has_mptcp ? LOCAL_MPTCP : 0;
		c->local_isn = s->seq;
		c->local_scale = offer.scale;
		c->mss = most(offer.mss, 1);
		// The window of a SYN is never scaled (RFC 7323 2.2).
		c->out.told_window = s->window;
		c->syns += 1;
		c->syn_us = now;
	} else {
		flags |= offer.has_scale ? REMOTE_SCALE : 0;
		flags |= offer.has_timestamps ? REMOTE_TIMESTAMPS : 0;
		flags |= offer.has_mptcp ? REMOTE_MPTCP : 0;
		c->remote_isn = s->seq;
	}
	c->flags = flags;
}

// The slot of the time; the last one becomes the one before.
static __always_inline struct shared *slots(__u64 now)
{
	__u32 zero = 0, slot = now >> SLOT_SHIFT;
	struct shared *shared = bpf_map_lookup_elem(&shared_state, &zero);

	if (!shared || shared->now.number == slot)
		return shared;
	if (shared->now.number + 1 == slot)
		shared->before = shared->now;
	else
		__builtin_memset(&shared->before, 0, sizeof(shared->before));
	__builtin_memset(&shared->now, 0, sizeof(shared->now));
	shared->now.number = slot;
	shared->now.queue_us = RTT_MAX_US;
	return shared;
}

// The queue of others that what comes now has waited in, in microseconds; 0: none. What waited in a queue
// comes right behind the data that it waited for. Where a quarter of the queue's time has passed since
// data came, or the queue is not told of any more, there was none.
static __always_inline __u64 queue_of_others(const struct shared *shared, __u64 now)
{
	__u64 queue = RTT_MAX_US;
	__u64 data_us = shared->data_us; // another processor may have written it after `now`

	if (shared->before.connections)
		queue = shared->before.queue_us;
	if (shared->now.connections)
		queue = least(queue, shared->now.queue_us);
	if (now > data_us && (now - data_us) * 4 > queue)
		return 0;
	return now <= shared->queue_until_us ? queue : 0;
}

// The round trip of the handshake: RTT_min is at most that. A connection that begins behind the queue
// of others would take the queue for a part of the path: so it takes what is known of the host, or
// takes the queue off.
static __always_inline void on_handshake(struct connection *c, struct key *key, __u64 now)
{
	__u64 rtt = least(most(now - c->syn_us, 1), RTT_MAX_US);
	__u64 rtt_min = rtt;

	if (settings.shares) {
		struct peer *peer = bpf_map_lookup_elem(&peers, key->remote);
		struct shared *shared = slots(now);

		if (peer && now - peer->confirmed_us < PEER_FORGOTTEN_US) {
			// Where nothing came between the SYN and its answer, no queue of ours was in between.
			if (!shared || shared->data_us + rtt >= now) {
				rtt_min = least(rtt, peer->rtt_min_us);
			} else {
				// So the path is another since, as after a hand-over.
				peer->rtt_min_us = rtt;
				peer->confirmed_us = now;
			}
		} else if (shared) {
			__u64 queue = queue_of_others(shared, now);

			// At most lambda - 1 round trips. A longer one than the handshake has left in part.
			if (queue < rtt)
				rtt_min = most(most(rtt - queue, 1),
					       least(rtt * 1000 / most(settings.lambda_permille, 1), rtt));
		}
	}
	c->out.rtt_min_us = rtt_min;
}

// Whether round trips of this connection come from timestamps.
static __always_inline int by_timestamps(const struct connection *c)
{
	__u32 both = LOCAL_TIMESTAMPS | REMOTE_TIMESTAMPS;

	return !settings.without_timestamps && (c->flags & both) == both;
}

// Data has come.
static __always_inline void on_data(struct connection *c, const struct segment *s, __u64 now)
{
	__u64 mark = c->out.mark;
	__u32 told = mark >> 32;
	__u64 gap = now - c->in.data_us;
	__u64 patience = c->out.rtt_est_us ? 2 * c->out.rtt_est_us : PAUSE_US;
	int is_timestamp = by_timestamps(c);
	// The server knew all our acknowledgements, and had nothing to send before: that is no round trip.
	int knew_all = s->seq == c->out.acked && (!is_timestamp || s->tsecr == c->out.tsval);

	if (c->in.data_us && gap > patience && knew_all) {
		c->in.pauses += 1;
		c->in.taken = mark;
		c->in.data_us = now;
		return;
	}
	c->in.data_us = now;
	if (mark == 0 || c->in.taken == mark)
		return;
	__u64 elapsed = (__u32)now - (__u32)mark;
	__u64 later = 0;
	if (is_timestamp) {
		if (!s->has_timestamps || is_before(s->tsecr, told))
			return;
		// A server that sends in bunches answers a later acknowledgement of the bunch.
		later = (__u64)(s->tsecr - told) * c->out.tick_us;
		if (s->tsecr != told && (c->out.tick_us == 0 || c->out.tick_us == TICK_UNKNOWN))
			later = elapsed;
	} else if (!is_before(told, s->seq + s->payload_len)) {
		return;
	}
	c->in.taken = mark;
	if (later && later >= elapsed)
		return;
	__u64 rtt = least(most(elapsed - later, 1), RTT_MAX_US);
	__u32 round = c->out.round;
	if ((__u32)(c->in.best >> 32) == round && (__u32)c->in.best != 0)
		rtt = least(rtt, (__u32)c->in.best);
	c->in.best = (__u64)round << 32 | rtt;
	c->in.samples += 1;
}

#include "law.h"

// Finds out what TSval counts: milliseconds, or microseconds where a route says so.
static __always_inline void learn_tick(struct connection *c, __u32 tsval, __u64 now)
{
	__u64 first = c->out.first;
	__u64 elapsed = (__u32)now - (__u32)first;
	__u64 ticks = tsval - (__u32)(first >> 32);
	__u64 slack = 4000 + elapsed / 64;

	if (c->out.tick_us)
		return;
	if (first == 0) {
		c->out.first = (__u64)tsval << 32 | (__u32)now;
		return;
	}
	if (elapsed < TICK_TIME_US)
		return;
	if (ticks * 1000 + slack >= elapsed && ticks * 1000 <= elapsed + slack)
		c->out.tick_us = 1000;
	else if (ticks + slack >= elapsed && ticks <= elapsed + slack)
		c->out.tick_us = 1;
	else
		c->out.tick_us = TICK_UNKNOWN;
}

// The field for an acknowledgement in which the receiver says `own`; noted as told.
static __always_inline __u32 lower(struct connection *c, __u32 ack, __u32 own, __u32 scale)
{
	__u64 limit = c->out.window ? c->out.window : settings.initial_window;
	__s32 left = c->out.edge - ack;
	__u64 promised = left > 0 ? left : 0;
	__u64 units = (most(limit, promised) + (1ull << scale) - 1) >> scale;
	__u32 field = least(own, units);
	__u32 edge = ack + (field << scale);

	if (is_before(c->out.edge, edge))
		c->out.edge = edge;
	c->out.own_window = own << scale;
	c->out.told_window = field << scale;
	return field;
}

// Sets a mark whose answer gives a round trip, when the one before was answered.
static __always_inline void set_mark(struct connection *c, const struct segment *s, __u64 now)
{
	__u64 mark = c->out.mark;
	__u32 told = c->out.edge;

	if (mark && c->in.taken != mark)
		return;
	if (by_timestamps(c)) {
		// What carries data is answered when the other program has thought about it.
		if (!s->has_timestamps || s->payload_len || (mark && !is_before(mark >> 32, s->tsval)))
			return;
		told = s->tsval;
	}
	c->out.mark = (__u64)told << 32 | (__u32)now;
}

// The handshake is complete with the first segment of this host that is no SYN.
static __always_inline int shake(struct connection *c)
{
	__u32 both = LOCAL_SYN | REMOTE_SYN, scales = LOCAL_SCALE | REMOTE_SCALE;
	__u32 multipath = LOCAL_MPTCP | REMOTE_MPTCP;

	if ((c->flags & both) != both) {
		c->flags |= LATE;
		COUNT(late, 1);
		return -1;
	}
	if ((c->flags & multipath) == multipath) {
		c->flags |= MPTCP;
		COUNT(mptcp, 1);
		return -1;
	}
	if ((c->flags & scales) != scales)
		c->local_scale = 0;
	if ((c->flags & LOCAL_TIMESTAMPS) && (c->flags & REMOTE_TIMESTAMPS) && c->mss > TIMESTAMPS_LEN)
		c->mss -= TIMESTAMPS_LEN;
	c->out.acked = c->remote_isn + 1;
	c->out.edge = c->remote_isn + 1 + c->out.told_window;
	c->flags |= SHAKEN;
	COUNT(connections, 1);
	return 0;
}

SEC("tc")
int drwa_in(struct __sk_buff *skb)
{
	struct segment s;
	struct connection *c;
	__u64 now;

	if (read_segment(skb, &s, 0))
		return NEXT;
	now = time_us();
	if (s.flags & SYN) {
		on_syn(skb, &s, 0, now);
		// A SYN-ACK answers our SYN: the first round trip.
		if (!(s.flags & ACK))
			return NEXT;
	}
	c = bpf_map_lookup_elem(&connections, &s.key);
	if (!c || (c->flags & (LATE | UNSELECTED | MPTCP)))
		return NEXT;
	if (s.flags & (FIN | RST))
		c->in.ended |= s.flags & RST ? ENDED_RST : ENDED_FIN;
	if (c->syn_us && (s.flags & ACK)) {
		if (c->syns == 1)
			on_handshake(c, &s.key, now);
		c->syn_us = 0;
	}
	if (!(c->flags & SHAKEN) || s.payload_len == 0)
		return NEXT;
	read_timestamps(skb, &s);
	c->in.bytes += s.payload_len;
	COUNT(bytes_in, s.payload_len);
	if (settings.shares) {
		__u32 zero = 0;
		struct shared *shared = bpf_map_lookup_elem(&shared_state, &zero);

		if (shared)
			shared->data_us = now;
	}
	on_data(c, &s, now);
	return NEXT;
}

SEC("tc")
int drwa_out(struct __sk_buff *skb)
{
	struct segment s;
	struct connection *c;
	__u64 now;
	__u32 field;

	if (read_segment(skb, &s, 1))
		return NEXT;
	now = time_us();
	if (s.flags & SYN) {
		on_syn(skb, &s, 1, now);
		return NEXT;
	}
	c = bpf_map_lookup_elem(&connections, &s.key);
	if (!c) {
		// A reset opens nothing.
		if (!(s.flags & RST) && begin(&s, LATE, now))
			COUNT(late, 1);
		return NEXT;
	}
	if (s.flags & (FIN | RST))
		c->out.ended |= s.flags & RST ? ENDED_RST : ENDED_FIN;
	if ((c->flags & UNSELECTED) && !(c->flags & SHAKEN)) {
		c->flags |= SHAKEN;
		COUNT(unselected, 1);
	}
	if (c->flags & (LATE | UNSELECTED | MPTCP) || !(s.flags & ACK) || (s.flags & RST))
		return NEXT;
	if (!(c->flags & SHAKEN) && shake(c))
		return NEXT;
	read_timestamps(skb, &s);
	if (s.has_timestamps) {
		c->out.tsval = s.tsval;
		learn_tick(c, s.tsval, now);
	}
	c->out.acks += 1;
	COUNT(segments_out, 1);
	if (is_before(c->out.acked, s.ack)) {
		c->out.delivered += s.ack - c->out.acked;
		c->out.acked = s.ack;
	}
	on_delivered(c, &s.key, now);
	field = lower(c, s.ack, s.window, c->local_scale & 15);
	set_mark(c, &s, now);
	if (field != s.window) {
		__be16 from = bpf_htons(s.window), to = bpf_htons(field);

		c->out.lowered += 1;
		COUNT(windows_lowered, 1);
		// Where the device finishes the checksum, this leaves it alone.
		bpf_l4_csum_replace(skb, s.tcp_at + 16, from, to, sizeof(to));
		bpf_skb_store_bytes(skb, s.tcp_at + 14, &to, sizeof(to), 0);
	}
	return NEXT;
}
