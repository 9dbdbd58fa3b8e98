// SPDX-License-Identifier: GPL-2.0
// The window that follows from round trips and delivered bytes. Part of drwa.bpf.c.

// Whether a queue of lambda round trips, and a quarter for noise, explains the round trip. Without the
// quarter where RTT_min was given in to others, who may still be filling.
static __always_inline int is_explained(const struct connection *c, __u64 rtt)
{
	return rtt * 4000 <= c->out.rtt_min_us * settings.lambda_permille * (c->out.before_us ? 4 : 5);
}

// How long round trips have been unexplained, in microseconds.
static __always_inline __u64 unexplained_for(struct connection *c, __u64 rtt, __u64 now)
{
	if (is_explained(c, rtt)) {
		c->out.explained_rtt_us = rtt;
		c->out.explained_cwnd = c->out.cwnd_est;
		c->out.unexplained_us = 0;
		return 0;
	}
	if (c->out.unexplained_us == 0)
		c->out.unexplained_us = now;
	return now - c->out.unexplained_us;
}

// What all connections of the interface had in the last second, and at least this one's.
static __always_inline __u64 of_all(__u64 own, __u64 now)
{
	struct shared *shared = settings.shares ? slots(now) : 0;

	return shared ? most(own, shared->before.bytes) : own;
}

// Whether cwnd_est has lost a quarter, and the round trip above lambda RTT_min not a sixteenth with it, as
// that of a queue of ours would. All connections of the interface have to have lost as much.
static __always_inline int has_shrunk_in_vain(struct connection *c, __u64 rtt, __u64 now)
{
	__u64 cwnd = c->out.cwnd_est, all;

	if (rtt * 1000 <= c->out.rtt_min_us * settings.lambda_permille) {
		c->out.above_rtt_us = 0;
		return 0;
	}
	if (cwnd == 0)
		return 0;
	all = of_all(cwnd >> FRACTION_BITS, now);
	if (c->out.above_rtt_us == 0 || rtt * 16 <= c->out.above_rtt_us * 15) {
		c->out.above_rtt_us = rtt;
		c->out.above_cwnd = cwnd;
		c->out.above_bytes = all;
	}
	return cwnd * 4 <= c->out.above_cwnd * 3 && all * 4 <= c->out.above_bytes * 3;
}

// RTT_min, learned anew when nothing of ours explains the round trips, or tried again. Long round trips may
// still be ours, where the capacity has fallen. A probe tells: half a window empties half of a queue of ours.
static __always_inline void re_baseline(struct connection *c, __u64 rtt, __u64 now)
{
	__u64 before, before_rtt, own, all;

	if (settings.re_baseline_us == 0)
		return;
	if (c->out.retry_us && now >= c->out.retry_us) {
		c->out.rtt_min_us = least(c->out.rtt_min_us, c->out.before_us);
		c->out.before_us = c->out.retry_us = c->out.unexplained_us = 0;
	}
	if (c->out.probe_rtt_us == 0) {
		int in_vain = has_shrunk_in_vain(c, rtt, now);
		__u64 unexplained = unexplained_for(c, rtt, now);

		if (in_vain || (c->out.unexplained_us && unexplained >= settings.re_baseline_us)) {
			c->out.probe_rtt_us = c->out.probe_least_us = rtt;
			c->out.probe_rounds = 0;
		}
		return;
	}
	c->out.probe_least_us = least(c->out.probe_least_us, rtt);
	c->out.probe_rounds += 1;
	if (c->out.probe_rounds < PROBE_ROUNDS)
		return;
	if (c->out.unexplained_us && c->out.explained_rtt_us) {
		before = c->out.explained_cwnd;
		before_rtt = c->out.explained_rtt_us;
	} else {
		before = c->out.above_rtt_us ? c->out.above_cwnd : 0;
		before_rtt = most(c->out.above_rtt_us, 1);
	}
	c->out.unexplained_us = c->out.above_rtt_us = 0;
	own = c->out.cwnd_est >> FRACTION_BITS;
	all = of_all(own, now);
	// Half of the window is own / all / 2 of a queue that is ours; where five eighths of that went, most is.
	if ((c->out.probe_rtt_us - c->out.probe_least_us) * 16 * all < c->out.probe_rtt_us * 5 * own) {
		if (settings.retry_us && c->out.before_us == 0) {
			c->out.before_us = c->out.rtt_min_us;
			c->out.retry_us = now + settings.retry_us;
		}
		// What it has lost since, others have taken. The rate it had before fills more of longer round trips;
		// less a quarter, because the window is twice that until the queue has grown.
		before = least(before, CWND_MAX) * most(c->out.probe_least_us * 3 / 4, before_rtt) / before_rtt;
		c->out.cwnd_est = most(c->out.cwnd_est, least(before, CWND_MAX));
		// What others fill is matched, not exceeded: the round trip settles at twice theirs.
		c->out.rtt_min_us = c->out.probe_least_us * 2000 / most(settings.lambda_permille, 1);
		c->out.rtt_min_us = least(most(c->out.rtt_min_us, 1), rtt);
	}
	c->out.probe_rtt_us = 0;
}

// cwnd_est as the window is to use it: three quarters are the mean of the interface's connections.
// The sum stays, the shares become equal.
static __always_inline __u64 share(struct connection *c, struct key *key, __u64 cwnd, __u64 now)
{
	struct shared *shared = slots(now);
	struct peer *peer = bpf_map_lookup_elem(&peers, key->remote);
	__u64 rtt = c->out.rtt_est_us, rtt_min = c->out.rtt_min_us;

	if (c->out.before_us == 0) {
		int is_new = !peer || now - peer->confirmed_us >= PEER_FORGOTTEN_US;
		if (is_new || rtt_min < peer->rtt_min_us) {
			struct peer found = { .rtt_min_us = rtt_min, .confirmed_us = now };
			bpf_map_update_elem(&peers, key->remote, &found, BPF_ANY);
		} else if (rtt * 4000 <= peer->rtt_min_us * settings.lambda_permille * 5) {
			peer->confirmed_us = now;
		}
	}
	if (!shared)
		return cwnd;
	if (c->out.slot != shared->now.number) {
		c->out.slot = shared->now.number;
		__sync_fetch_and_add(&shared->now.connections, 1);
		__sync_fetch_and_add(&shared->now.bytes, cwnd);
	}
	shared->now.queue_us = least(shared->now.queue_us, rtt - rtt_min);
	shared->queue_until_us = most(shared->queue_until_us, now + rtt + rtt - rtt_min);
	if (shared->before.connections < 2)
		return cwnd;
	// Many small ones do not starve a large one.
	return most((cwnd + 3 * (shared->before.bytes / shared->before.connections)) / 4, cwnd / 2);
}

static __always_inline void end_round(struct connection *c, struct key *key, __u64 rtt, __u64 data, __u64 now)
{
	__u64 estimate = data << FRACTION_BITS;
	__u64 was_halved = c->out.probe_rtt_us;
	__u64 cwnd, window;

	c->out.rtt_est_us = rtt;
	c->out.rtt_min_us = c->out.rtt_min_us ? least(c->out.rtt_min_us, rtt) : rtt;
	re_baseline(c, rtt, now);
	if (c->out.cwnd_est && was_halved) {
		estimate = c->out.cwnd_est;
	} else if (c->out.cwnd_est) {
		int has_queue = rtt * 2 > c->out.rtt_min_us * 3;
		__u64 alpha = settings.alpha_permille;

		// What others fill is no empty path: a window that doubles into it would take all of it.
		if (settings.is_free_without_queue && !has_queue && c->out.before_us == 0)
			estimate = most(c->out.cwnd_est, estimate);
		else
			estimate = (c->out.cwnd_est * alpha + estimate * (1000 - alpha)) / 1000;
	}
	c->out.cwnd_est = estimate;
	cwnd = estimate >> FRACTION_BITS;
	if (settings.shares)
		cwnd = share(c, key, cwnd, now);
	window = least(cwnd * settings.lambda_permille / 1000, WINDOW_MAX);
	window = window * c->out.rtt_min_us / rtt;
	// What the round trip has become in the meantime does not count: half of what it was.
	if (c->out.probe_rtt_us)
		window = least(window * rtt / c->out.probe_rtt_us / 2, window);
	c->out.window = most(window, 2 * c->mss);
	COUNT(rounds, 1);
}

// Bytes up to `delivered` have been acknowledged.
static __always_inline void on_delivered(struct connection *c, struct key *key, __u64 now)
{
	__u64 delivered = c->out.delivered, best = c->in.best, rtt = c->out.rtt_est_us;
	__u64 elapsed, data;

	if (c->out.pauses != c->in.pauses) {
		c->out.pauses = c->in.pauses;
		c->out.began_us = 0;
		c->out.round += 1;
	}
	if (c->out.began_us == 0) {
		c->out.began_us = now;
		c->out.began_delivered = delivered;
		return;
	}
	if ((__u32)(best >> 32) == c->out.round && (__u32)best)
		rtt = (__u32)best;
	elapsed = now - c->out.began_us;
	if (rtt == 0 || elapsed < rtt || elapsed == 0)
		return;
	// A round ends late where acknowledgements are bunched: a round trip's share of it counts.
	data = least(delivered - c->out.began_delivered, DATA_MAX) * rtt / elapsed;
	end_round(c, key, rtt, data, now);
	c->out.began_us = now;
	c->out.began_delivered = delivered;
	c->out.round += 1;
}
