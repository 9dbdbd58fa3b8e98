/* SPDX-License-Identifier: GPL-2.0 */
/* The law of one connection: crates/core/control/src/server.rs and what lies in its folder, in C, term by term, in the same integers. What each term
 * and constant is for stands there; tests/arithmetic.rs compares the whole state after every event.
 *
 *   W = min( K + (tau + d) r^ ,  2K + (tau + D) r- ),  at most what Q, S and the start allow
 *
 * Times in us, amounts in bytes, rates in bytes per second. 0 is none, also where a time is a moment. */
#ifndef LAW_H
#define LAW_H

#include <linux/types.h>

#define BINS 32
#define MARKS 16
#define MET 8

/* In the order of control::server::Law; src/layout.rs reads it. */
struct law {
	__u64 window;
	__u64 pacing_rate;
	__u64 mss;
	__u64 limited_us;
	__u64 bin_us;
	__u64 bin_started_us;
	__u64 bin_bytes;
	__u64 bin_is_limited;
	__u64 forecast;
	__u64 average;
	__u64 last_ack_us;
	__u64 gaps_us;
	__u64 gap_squares;
	__u64 floor_us;
	__u64 confirmed_us;
	__u64 age_max_us;
	__u64 drain_from_us;
	__u64 drain_until_us;
	__u64 drain_smallest_us;
	__u64 drain_rtt_us;
	__u64 headroom_ns;
	__u64 start_window;
	__u64 queueing_since_us;
	__u64 allowed;
	__u64 lost_us;
	__u64 acknowledged;
	__u64 pending;
	__u64 long_delivered;
	__u64 long_lost;
	__u64 short_delivered;
	__u64 short_lost;
	__u64 size;
	__u64 rises_us;
	__u64 longest;
	__u64 longest_before;
	__u64 longest_since_us;
	__u64 police_state;
	__u64 police_since_us;
	__u64 police_delivered;
	__u64 police_lost;
	__u64 police_before_ppm;
	__u64 police_again_us;
	__u64 police_rate;
	__u64 police_parts;
	__u64 police_waited_us;
	__u64 police_samples;
	__u64 others;
	__u64 others_forecast;
	__u64 others_recent;
	__u64 others_headroom_ns;
	__u32 bound; /* enum bound */
	__u32 others_queue;
	__u32 drain_samples;
	__u32 bins_written;
	__u32 marks_written;
	__u32 acks;
	__u32 bins[BINS];
	__u32 mark_us[MARKS];
	__u32 mark_bytes[MARKS];
	__u32 met[MET];
};

enum bound {
	BOUND_START,
	BOUND_FORECAST,
	BOUND_PATIENCE,
	BOUND_BUFFER,
	BOUND_DRAIN,
	BOUND_TIME_OUT,
	BOUND_POLICER,
};

/* What an acknowledgement tells. */
struct ack_event {
	__u64 now_us;
	__u64 delivered;
	__u64 lost;
	__u64 rtt_us;
	__u64 in_flight_before;
	__u64 is_limited;
};

#define BIN_US 30000
#define FINEST 12
#define GRAINS_PER_BIN 2
#define BINS_PER_ROUND_TRIP 8
#define BINS_SPANNED 4
#define RECENT_BINS 4
#define AVERAGED_US 360000

#define CONSTANT 6000
#define HEADROOM_MIN_US 12000
#define HEADROOM_MAX_US 48000
#define STARVED_BELOW_US 5000
#define STARVED_PERMILLE 20
#define HEADROOM_GAIN 80
#define STEP_MAX_NS 100000000
#define DELAY_MAX_US 100000

#define GAPS_MEMORY_US 1000000
#define GAPS_KNOWN_US 100000
#define GAP_MAX_US 30000

#define FLOOR_AGE_US 10000000
#define FLOOR_AGE_DOUBTED_US 3000000
#define FLOOR_AGE_ROUNDS 50
#define TOGETHER_BINS 2
#define OTHERS_PARTS 16
#define OTHERS_SURE 2
#define DRAIN_SAMPLES 4
#define NEAR_US 2000
#define JITTER_PARTS 16
#define LEAST_PARTS 4

#define SEGMENTS_MIN 4
#define SILENT_SEGMENTS 1
#define RETRY_SEGMENTS 32
#define LOSS_MEMORY_US 10000000
#define SILENCE_GROWTH 2
#define INITIAL_SEGMENTS 10

#define PACING_PERCENT 200
#define BOUND_PACING_PERCENT 125
#define PACED_WITHIN_US 1000

#define BUNCH_US 2000
#define MEMORY_US 60000000

#define RATE_MAX (1ULL << 37)
#define TIME_MAX_US (1ULL << 26)
#define BYTES_MAX (1ULL << 32)
#define RATE_UNIT 128

#define HALF_US 5000000
#define LONG_QUARTERS 3
#define LOST_MIN 4
#define TIMES 3
#define MORE_PPM 60000
#define SHORT_PPM 200000
#define RISE 128
#define RISE_IDLE 32
#define KEPT_TENTHS 7
#define WINDOWS_MAX 1024
#define WINDOWS_MIN 16
#define LOST_MUCH 64
#define BUFFER_SEGMENTS_MIN 4

#define ROUND_TRIPS 12
#define INTERVAL_MIN_US 200000
#define POLICE_SEGMENTS_MIN 64
#define LOST_PPM 20000
#define LOSSY_MIN 2
#define LOST_MUCH_PPM 100000
#define TRIED_US 30000000
#define ONE 256
#define LEAST 64
#define MOST (1 << 16)
#define UP 4
#define UP_EARLY 8
#define CLEAN_US 5000000
#define DOWN 8
#define FEW_PPM 2500
#define MANY_PPM 7500

#define SLOTS 8
#define SLOT_SHIFT 17
#define MEMORY_SLOTS 8
#define COMPARED_MIN 12
#define ALIKE 2
#define COMPARED_EARLY 5
#define ALIKE_EARLY 8
#define COMPARED_MAX 255
#define SPREAD_MIN_US 300
#define NOISE_US 2000
#define ACTIVE_US 250000
#define LED_US 4000000
#define HINT_US 60000000
#define START_MAX (32 << 10)

#define always static inline __attribute__((always_inline))
/* A function that the verifier looks at once, whatever calls it. Its arguments may be null to it. */
#define once __attribute__((noinline))

always __u64 smaller(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

always __u64 larger(__u64 a, __u64 b)
{
	return a > b ? a : b;
}

/* a - b, at least 0. */
always __u64 beyond(__u64 a, __u64 b)
{
	return a > b ? a - b : 0;
}

/* The rate of `bytes` in `us`. */
always __u64 rate_of(__u64 bytes, __u64 us)
{
	return smaller(smaller(bytes, BYTES_MAX) * 1000000 / larger(us, 1), RATE_MAX);
}

/* What `rate` brings in `us`. */
always __u64 bytes_in(__u64 rate, __u64 us)
{
	return rate * smaller(us, TIME_MAX_US) / 1000000;
}

/* How long `rate` takes for `bytes`, ns. */
always __u64 time_ns(__u64 rate, __u64 bytes)
{
	return smaller(bytes, BYTES_MAX) * 1000000000 / larger(rate, 1);
}

/* The buffer. */

/* Of a million bytes so many were lost. */
always __u64 ppm(__u64 delivered, __u64 lost)
{
	return delivered + lost ? lost * 1000000 / (delivered + lost) : 0;
}

/* What may be in flight so that it fits; 0 for no limit. */
always __u64 ceiling(const struct law *law)
{
	if (!law->size || law->others_queue)
		return law->size;
	return larger(law->size, bytes_in(law->average, law->floor_us) + law->size / 3);
}

/* Long queues lose far more than short ones. */
always int overflows(const struct law *law)
{
	__u64 of_long = ppm(law->long_delivered, law->long_lost);
	__u64 of_short = ppm(law->short_delivered, law->short_lost);

	return law->long_lost >= law->mss * LOST_MIN &&
	       (of_long >= of_short * TIMES || of_long >= of_short + MORE_PPM || of_short >= SHORT_PPM);
}

/* What was acknowledged in the `before` microseconds before `us`, or in a little less. */
always __u32 acknowledged_within(const struct law *law, __u32 us, __u32 before)
{
	__u32 known = smaller(law->marks_written, MARKS), written = law->marks_written, bytes = 0;

	for (__u32 back = 1; back <= MARKS; back++) {
		__u32 place = (written + MARKS - back) & (MARKS - 1);

		if (back > known || (__u32)(us - law->mark_us[place]) > before)
			break;
		bytes = (__u32)law->acknowledged - law->mark_bytes[place];
	}
	return bytes;
}

always void mark(struct law *law, __u32 us, __u64 waited)
{
	__u32 place = (law->marks_written + MARKS - 1) & (MARKS - 1);
	__u32 apart = larger(waited / (MARKS - 4), 100);

	if (law->marks_written && (__u32)(us - law->mark_us[place]) < apart)
		return;
	place = law->marks_written & (MARKS - 1);
	law->mark_us[place] = us;
	law->mark_bytes[place] = law->acknowledged;
	law->marks_written++;
	if (law->marks_written >= 2 * MARKS)
		law->marks_written -= MARKS;
}

always void remember_longest(struct law *law, __u64 queue, __u64 now)
{
	if (beyond(now, law->longest_since_us) >= HALF_US) {
		law->longest_before = law->longest;
		law->longest = 0;
		law->longest_since_us = now;
	}
	law->longest = larger(law->longest, queue);
}

always void forget_counted(struct law *law)
{
	__u64 lost = law->long_lost + law->short_lost;
	__u64 counted = law->long_delivered + law->short_delivered + lost;
	__u64 windows = lost >= law->mss * LOST_MUCH ? WINDOWS_MIN : WINDOWS_MAX;

	if (counted >= smaller(law->window * windows, BYTES_MAX / 4)) {
		law->long_delivered /= 2;
		law->long_lost /= 2;
		law->short_delivered /= 2;
		law->short_lost /= 2;
	}
}

always void adapt_size(struct law *law, __u64 met, int is_long, __u64 lost, int is_used, __u64 later)
{
	if (law->others_queue && lost) {
		if (!law->size || law->last_ack_us >= law->rises_us) {
			law->size = larger(met, law->window * KEPT_TENTHS / 10);
			law->rises_us = later;
		}
	} else if (!law->others_queue && !overflows(law)) {
		law->size = 0;
	} else if (is_long && lost && met >= law->mss * BUFFER_SEGMENTS_MIN) {
		law->size = met;
		law->rises_us = later;
	} else if (law->size && is_used && law->last_ack_us >= law->rises_us) {
		law->size += (met * 4 < law->size ? law->window / RISE_IDLE : law->size / RISE) +
			     (law->others_queue ? law->mss : law->mss / 16);
		if (law->size / 2 >= law->window)
			law->size = 0;
		law->rises_us = later;
	}
}

once int follow_buffer(struct law *law, const struct ack_event *ack, __u64 rtt, int is_used)
{
	__u64 delivered, lost, waited, met = 0;
	__u32 us, queue;
	int is_long;

	if (!law || !ack)
		return 0;
	delivered = smaller(ack->delivered, BYTES_MAX);
	lost = law->pending;
	us = ack->now_us;
	law->acknowledged = (law->acknowledged + delivered) & 0xffffffff;
	if (!rtt || delivered < law->mss / 2)
		return 0;
	waited = beyond(rtt, law->floor_us);
	queue = acknowledged_within(law, us, waited);
	law->met[law->acks & (MET - 1)] = queue;
	law->acks++;
	mark(law, us, waited);
	remember_longest(law, queue, ack->now_us);
	for (int i = 0; i < MET; i++)
		met = larger(met, law->met[i]);
	is_long = met * 4 >= larger(law->longest, law->longest_before) * LONG_QUARTERS;
	law->pending = 0;
	if (is_long) {
		law->long_delivered += delivered;
		law->long_lost += lost;
	} else {
		law->short_delivered += delivered;
		law->short_lost += lost;
	}
	forget_counted(law);
	adapt_size(law, met, is_long, lost, is_used, ack->now_us + rtt);
	return 0;
}

/* The floor. */

always __u64 near_floor_us(const struct law *law)
{
	return larger(NEAR_US, law->floor_us / JITTER_PARTS);
}

always void end_drain(struct law *law)
{
	law->drain_from_us = 0;
	law->drain_until_us = 0;
	law->drain_smallest_us = 0;
	law->drain_rtt_us = 0;
	law->drain_samples = 0;
}

/* The end of a drain. */
always void take_floor(struct law *law, __u64 now)
{
	int is_doubted_again = law->age_max_us < FLOOR_AGE_US;
	int is_others = law->drain_rtt_us &&
			law->drain_smallest_us > law->floor_us + near_floor_us(law) &&
			law->drain_smallest_us * OTHERS_PARTS >= law->drain_rtt_us * (OTHERS_PARTS - 1);
	__u64 halves = is_doubted_again && is_others ? 4 : 3;
	__u64 believed = law->floor_us * halves / 2 + 5000;
	int is_doubted = law->drain_smallest_us > believed;

	law->others_queue = is_others ? smaller(law->others_queue + 1, OTHERS_SURE) : 0;
	if (is_doubted && is_others)
		law->age_max_us = 0;
	else if (is_doubted || law->others_queue == OTHERS_SURE)
		law->age_max_us = FLOOR_AGE_DOUBTED_US;
	else
		law->age_max_us = FLOOR_AGE_US;
	law->floor_us = smaller(law->drain_smallest_us, believed);
	law->confirmed_us = now;
	end_drain(law);
}

always void update_floor(struct law *law, __u64 rtt, int is_queueing, __u64 now)
{
	__u64 age_max;

	if (!law->floor_us) {
		law->confirmed_us = now;
		law->floor_us = rtt;
	} else if (law->age_max_us == FLOOR_AGE_US &&
		   rtt <= law->floor_us + near_floor_us(law)) {
		law->confirmed_us = now;
		law->others_queue = 0;
		end_drain(law);
	}
	law->floor_us = smaller(law->floor_us, rtt);
	if (law->drain_from_us) {
		if (now >= law->drain_from_us) {
			if (!law->drain_smallest_us || rtt < law->drain_smallest_us)
				law->drain_smallest_us = rtt;
			law->drain_samples++;
		}
		if (now >= law->drain_until_us && law->drain_samples >= DRAIN_SAMPLES)
			take_floor(law, now);
		return;
	}
	age_max = law->age_max_us;
	if (age_max >= FLOOR_AGE_US)
		age_max = larger(age_max, law->floor_us * FLOOR_AGE_ROUNDS);
	if (is_queueing && beyond(now, law->confirmed_us) > age_max) {
		law->drain_from_us = now + rtt;
		law->drain_rtt_us = rtt;
		law->drain_until_us = now + rtt + law->floor_us + (law->others ? law->bin_us * TOGETHER_BINS : 0);
	}
}

/* The grain, and the bins. */

always void count_gap(struct law *law, int is_used, __u64 now)
{
	__u64 gap = smaller(beyond(now, law->last_ack_us), GAP_MAX_US);

	law->last_ack_us = now;
	if (!is_used)
		return;
	law->gaps_us += gap;
	law->gap_squares += gap * gap;
	if (law->gaps_us >= GAPS_MEMORY_US) {
		law->gaps_us /= 2;
		law->gap_squares /= 2;
	}
}

always int is_grain_known(const struct law *law)
{
	return law->gaps_us >= GAPS_KNOWN_US;
}

always __u64 grain_us(const struct law *law)
{
	return law->gap_squares / larger(law->gaps_us, 1);
}

always void adapt_bins(struct law *law)
{
	__u64 least;

	if (!is_grain_known(law) || !law->floor_us)
		return;
	least = smaller(larger(law->floor_us / BINS_PER_ROUND_TRIP, BIN_US / FINEST), BIN_US);
	law->bin_us = smaller(larger(grain_us(law) * GRAINS_PER_BIN, least), BIN_US);
}

always void restart_bin(struct law *law, __u64 now)
{
	law->bin_started_us = now;
	law->bin_bytes = 0;
	law->bin_is_limited = 0;
}

/* 1 where a < b, without a branch: so the verifier has one way through all comparisons. Both below 2^63. */
always __u64 is_less(__u64 a, __u64 b)
{
	__u64 difference = a - b;

	asm volatile("" : "+r"(difference));
	difference >>= 63;
	/* Nor is a branch made of what is multiplied by it. */
	asm volatile("" : "+r"(difference));
	return difference;
}

once int compute_forecast(struct law *law)
{
	__u64 known, most = 0, quantile = 0, rank;

	if (!law)
		return 0;
	known = smaller(law->bins_written, BINS);
	if (known < 3) {
		law->forecast = 0;
		return 0;
	}
	/* Of all places: those that are not written yet hold zeros, which lie below all others. */
	rank = BINS - known + ((known - 1) * 7 + 5) / 10;
	for (int i = 0; i < BINS; i++) {
		__u64 own = law->bins[i], less = 0, no_more = 0, is_it;

		for (int j = 0; j < BINS; j++) {
			less += is_less(law->bins[j], own);
			no_more += is_less(law->bins[j], own + 1);
		}
		/* less <= rank < no_more */
		is_it = is_less(less, rank + 1) & is_less(rank, no_more);
		quantile = quantile * (1 - is_it) + own * is_it;
		most += (own - most) * is_less(most, own);
	}
	law->forecast = (quantile * 7 + most * 3) * RATE_UNIT / 10;
	return 0;
}

always void take_average(struct law *law, __u64 rate, __u64 lasted)
{
	__u64 new = smaller(lasted, AVERAGED_US);

	if (law->average)
		rate = (rate * new + law->average * (AVERAGED_US - new)) / AVERAGED_US;
	law->average = rate;
}

always void count_bin(struct law *law, __u64 delivered, int is_used, __u64 now)
{
	__u64 elapsed, lasted, rate;
	int tells;

	if (!law->bin_started_us) {
		restart_bin(law, now);
		return;
	}
	law->bin_bytes += delivered;
	if (is_used)
		law->bin_is_limited = 1;
	elapsed = beyond(now, law->bin_started_us);
	if (elapsed < law->bin_us)
		return;
	lasted = smaller(elapsed, law->bin_us * BINS_SPANNED);
	rate = rate_of(law->bin_bytes, lasted);
	tells = law->bin_is_limited || rate > law->forecast;
	restart_bin(law, now);
	if (!tells)
		return;
	law->bins[law->bins_written & (BINS - 1)] = rate / RATE_UNIT;
	law->bins_written++;
	if (law->bins_written >= 2 * BINS)
		law->bins_written -= BINS;
	take_average(law, rate, lasted);
	compute_forecast(law);
}

/* The mean of the last bins. */
always __u64 recent(const struct law *law)
{
	__u64 known = smaller(law->bins_written, RECENT_BINS), sum = 0;
	__u32 written = law->bins_written;

	for (__u32 back = 1; back <= RECENT_BINS; back++)
		if (back <= known)
			sum += (__u64)law->bins[(written + BINS - back) & (BINS - 1)] * RATE_UNIT;
	return known ? sum / known : 0;
}

/* Headroom. */

always __u64 scaled(const struct law *law, __u64 us)
{
	return us * law->bin_us / BIN_US;
}

always __u64 near_us(const struct law *law)
{
	__u64 grain = is_grain_known(law) ? grain_us(law) : STARVED_BELOW_US;

	return larger(smaller(grain, STARVED_BELOW_US), law->floor_us / JITTER_PARTS);
}

always __u64 headroom_min_us(const struct law *law)
{
	return larger(larger(scaled(law, HEADROOM_MIN_US), law->floor_us / LEAST_PARTS), STARVED_BELOW_US);
}

always __u64 headroom_max_us(const struct law *law)
{
	return larger(larger(larger(scaled(law, HEADROOM_MAX_US), law->floor_us), HEADROOM_MIN_US),
		      headroom_min_us(law));
}

always void follow_headroom(struct law *law, __u64 rtt, __u64 delivered)
{
	__u64 step;

	if (!law->forecast)
		return;
	step = smaller(time_ns(law->forecast, delivered), STEP_MAX_NS) * HEADROOM_GAIN / 1000;
	if (rtt < law->floor_us + near_us(law))
		law->headroom_ns += step * (1000 - STARVED_PERMILLE) / 1000;
	else
		law->headroom_ns = beyond(law->headroom_ns, step * STARVED_PERMILLE / 1000);
	law->headroom_ns = smaller(larger(law->headroom_ns, headroom_min_us(law) * 1000),
				   headroom_max_us(law) * 1000);
}

/* The start. */

always void follow_start(struct law *law, const struct ack_event *ack, __u64 rtt)
{
	int is_queueing, lasts;

	if (!law->start_window || !rtt)
		return;
	is_queueing = rtt > law->floor_us + larger(headroom_min_us(law), headroom_max_us(law) / 2);
	if (!is_queueing)
		law->queueing_since_us = 0;
	else if (!law->queueing_since_us)
		law->queueing_since_us = ack->now_us;
	lasts = is_queueing && beyond(ack->now_us, law->queueing_since_us) >= law->floor_us;
	if ((lasts || ceiling(law)) && law->forecast)
		law->start_window = 0;
	else if (ack->in_flight_before >= law->start_window / 2 && !is_queueing)
		law->start_window = smaller(law->start_window + ack->delivered, BYTES_MAX);
}

/* The policer. */

enum police_state {
	POLICE_WATCH,
	POLICE_TRIAL,
	POLICE_POLICED,
};

/* The window of a path with a policer. */
always __u64 policed(const struct law *law)
{
	return smaller(bytes_in(law->police_rate, law->floor_us), BYTES_MAX) * law->police_parts / ONE;
}

once int follow_policer(struct law *law, const struct ack_event *ack, __u64 rtt)
{
	__u64 now, share, waited;
	int has_queue;

	if (!law || !ack)
		return 0;
	now = ack->now_us;
	law->police_delivered = smaller(law->police_delivered + ack->delivered, BYTES_MAX);
	law->police_lost = smaller(law->police_lost + ack->lost, BYTES_MAX);
	if (rtt) {
		law->police_waited_us += beyond(rtt, law->floor_us);
		law->police_samples++;
	}
	if (beyond(now, law->police_since_us) < larger(law->floor_us * ROUND_TRIPS, INTERVAL_MIN_US) ||
	    law->police_delivered < law->mss * POLICE_SEGMENTS_MIN)
		return 0;
	share = ppm(law->police_delivered, law->police_lost);
	waited = law->police_waited_us / larger(law->police_samples, 1);
	has_queue = waited > near_us(law);
	if (law->police_state == POLICE_TRIAL) {
		int is_policed = share * 2 <= law->police_before_ppm;

		law->police_state = is_policed ? POLICE_POLICED : POLICE_WATCH;
		law->police_again_us = is_policed ? now : now + TRIED_US;
		if (!is_policed)
			law->police_parts = 0;
	} else if (law->police_state == POLICE_POLICED) {
		if (has_queue) {
			law->police_state = POLICE_WATCH;
			law->police_again_us = 0;
			law->police_parts = 0;
		} else if (share < FEW_PPM) {
			int is_below;

			if (share)
				law->police_again_us = now;
			is_below = law->police_before_ppm || beyond(now, law->police_again_us) > CLEAN_US;
			law->police_parts =
				smaller(law->police_parts + (is_below ? law->police_parts / UP_EARLY : UP), MOST);
		} else if (share > MANY_PPM) {
			law->police_before_ppm = 0;
			law->police_again_us = now;
			law->police_parts = larger(beyond(law->police_parts, DOWN), LEAST);
		}
	} else {
		/* The start loses much, and once. */
		int is_over = !law->start_window || share >= LOST_MUCH_PPM;

		law->police_parts = share >= LOST_PPM && is_over && !has_queue && law->average ?
					    law->police_parts + 1 :
					    0;
		if (law->police_parts >= LOSSY_MIN && now >= law->police_again_us) {
			law->police_state = POLICE_TRIAL;
			law->police_before_ppm = share;
			law->police_rate = law->average;
			law->police_parts = ONE;
		}
	}
	law->police_since_us = now;
	law->police_delivered = 0;
	law->police_lost = 0;
	law->police_waited_us = 0;
	law->police_samples = 0;
	return 0;
}

/* The window. */

/* The mean of what this connection and the other members have. */
always __u64 shared(const struct law *law, __u64 own, __u64 others)
{
	return law->others ? (own + others) / (law->others + 1) : own;
}

always __u64 expected(const struct law *law)
{
	return shared(law, law->forecast, law->others_forecast);
}

always __u64 delay_max_us(const struct law *law)
{
	return larger(larger(scaled(law, DELAY_MAX_US), law->floor_us), HEADROOM_MIN_US);
}

always void pace(struct law *law, __u64 limit)
{
	__u64 by_window, known, rate;
	__u64 forecast = expected(law);

	if (!law->floor_us) {
		law->pacing_rate = RATE_MAX;
		return;
	}
	by_window = rate_of(law->window, larger(law->floor_us, PACED_WITHIN_US));
	known = forecast ? forecast : by_window;
	known = larger(known, rate_of(law->window, law->floor_us + delay_max_us(law)));
	if (law->window == limit || law->bound == BOUND_POLICER)
		rate = known * BOUND_PACING_PERCENT / 100;
	else
		rate = larger(by_window, known) * PACING_PERCENT / 100;
	law->pacing_rate = smaller(rate, RATE_MAX);
}

once int update(struct law *law)
{
	__u64 window = 0, limit, drained, forecast;
	__u32 bound = BOUND_START;

	if (!law)
		return 0;
	limit = ceiling(law);
	forecast = expected(law);
	if (law->floor_us && forecast) {
		__u64 headroom_us = shared(law, law->headroom_ns, law->others_headroom_ns) / 1000;
		__u64 lately = shared(law, recent(law), law->others_recent);
		__u64 patient = bytes_in(lately, law->floor_us + delay_max_us(law)) + 2 * CONSTANT;

		window = bytes_in(forecast, law->floor_us + headroom_us) + CONSTANT;
		bound = BOUND_FORECAST;
		if (patient < window) {
			window = patient;
			bound = BOUND_PATIENCE;
		}
	}
	if (law->start_window > window) {
		window = law->start_window;
		bound = BOUND_START;
	}
	if (!window) {
		window = law->mss * INITIAL_SEGMENTS;
		bound = BOUND_START;
	}
	if (limit && limit < window) {
		window = limit;
		bound = BOUND_BUFFER;
	}
	if (law->police_state && policed(law) < window) {
		window = policed(law);
		bound = BOUND_POLICER;
	}
	drained = bytes_in(forecast, law->floor_us / 2);
	if (law->drain_from_us && forecast && drained < window) {
		window = drained;
		bound = BOUND_DRAIN;
	}
	window = smaller(larger(window, law->mss * SEGMENTS_MIN), BYTES_MAX);
	if (law->allowed && law->allowed < window) {
		window = law->allowed;
		bound = BOUND_TIME_OUT;
	} else {
		law->allowed = 0;
	}
	law->window = window;
	law->bound = bound;
	pace(law, limit);
	return 0;
}

/* The events. */

always void begin(struct law *law, __u64 mss)
{
	static const struct law none = {};

	*law = none;
	law->mss = smaller(larger(mss, 1), 65535);
	law->bin_us = BIN_US;
	law->age_max_us = FLOOR_AGE_DOUBTED_US;
	law->headroom_ns = HEADROOM_MAX_US * 1000 / 2;
	law->start_window = law->mss * INITIAL_SEGMENTS;
	update(law);
}

always void on_handshake(struct law *law, __u64 rtt, __u64 now)
{
	if (!rtt || (law->floor_us && rtt > law->floor_us))
		return;
	law->floor_us = smaller(rtt, TIME_MAX_US);
	law->confirmed_us = now;
	law->age_max_us = FLOOR_AGE_US;
	update(law);
}

always void on_idle(struct law *law, __u64 now)
{
	law->confirmed_us = now;
	end_drain(law);
	if (law->last_ack_us && beyond(now, law->last_ack_us) > MEMORY_US) {
		law->forecast = 0;
		law->average = 0;
		law->bins_written = 0;
		for (int i = 0; i < BINS; i++)
			law->bins[i] = 0;
		law->headroom_ns = HEADROOM_MAX_US * 1000 / 2;
		law->start_window = law->mss * INITIAL_SEGMENTS;
		law->size = 0;
		law->others_queue = 0;
		law->long_delivered = 0;
		law->long_lost = 0;
		law->short_delivered = 0;
		law->short_lost = 0;
		update(law);
	}
	restart_bin(law, now);
}

always void on_timeout(struct law *law, __u64 now)
{
	int is_lossy = law->lost_us && beyond(now, law->lost_us) < LOSS_MEMORY_US;

	law->allowed = law->mss * (is_lossy ? RETRY_SEGMENTS : SILENT_SEGMENTS);
	update(law);
}

once int on_ack(struct law *law, const struct ack_event *ack)
{
	__u64 now, rtt;
	int is_used;

	if (!law || !ack)
		return 0;
	now = ack->now_us;
	rtt = smaller(ack->rtt_us, TIME_MAX_US);
	if (ack->lost) {
		law->pending = smaller(law->pending + ack->lost, BYTES_MAX);
		if (!law->allowed && !overflows(law))
			law->lost_us = now;
	}
	if (!ack->delivered)
		return 0;
	if (law->allowed)
		law->allowed += ack->delivered * SILENCE_GROWTH;
	if (ack->is_limited)
		law->limited_us = now;
	is_used = law->limited_us && beyond(now, law->limited_us) <= BUNCH_US;
	if (rtt) {
		update_floor(law, rtt, is_used, now);
		if (is_used && !law->drain_from_us && !law->start_window)
			follow_headroom(law, rtt, ack->delivered);
	}
	is_used = is_used && !law->drain_from_us;
	count_gap(law, is_used, now);
	adapt_bins(law);
	count_bin(law, ack->delivered, is_used, now);
	follow_buffer(law, ack, rtt, is_used);
	follow_policer(law, ack, rtt);
	follow_start(law, ack, rtt);
	update(law);
	return 0;
}

/* What connections to one destination tell each other. */

/* What members say of themselves, or are told of the others: sums, or all zero. */
struct shares {
	__u64 count;
	__u64 forecast;
	__u64 recent;
	__u64 headroom_ns;
};

/* What is known of a destination, in the order of control::server::SharedPath. Several connections write at the same
 * time: `members` and `group` by additions, the rest is its leader's. */
struct path {
	__u64 leader;
	__u64 led_us;
	__u64 group;
	struct shares members;
	__u64 drain_from_us;
	__u64 drain_until_us;
	__u64 floor_us;
	__u64 rate;
	__u32 slots[SLOTS];
	__u32 means_us[SLOTS];
};

struct peers {
	struct shares others;
	__u64 floor_us;
	__u64 drain_from_us;
	__u64 drain_until_us;
};

/* What a connection keeps for a path, in the order of control::server::Member. */
struct member {
	__u64 number;
	__u64 leader;
	__u64 group;
	__u64 is_drained;
	__u64 slot;
	__u64 sum_us;
	__u64 samples;
	__u64 ended_slot;
	__u64 ended_us;
	__u64 earlier_slot;
	__u64 earlier_us;
	__u64 own_eighths;
	__u64 leaders_eighths;
	__u64 apart;
	__u64 spread;
	__u64 compared;
	__u64 is_joined;
	struct shares given;
	__u64 is_fresh;
	__u64 bins_told;
};

always __u64 apart_by(__u64 a, __u64 b)
{
	return a > b ? a - b : b - a;
}

/* The window that a connection begins with. */
always __u64 start_window_of(const struct path *path, __u64 mss, __u64 now)
{
	__u64 usual = mss * INITIAL_SEGMENTS, rate;

	if (!path->led_us || beyond(now, path->led_us) > HINT_US)
		return usual;
	rate = path->rate / (smaller(path->members.count, 1 << 16) + 1);
	return larger(smaller(bytes_in(rate, path->floor_us) / 2, START_MAX), usual);
}

always int is_active(const struct law *law, const struct member *member, __u64 now)
{
	return !member->is_drained && !law->allowed && law->forecast && law->limited_us &&
	       law->window > law->mss * SEGMENTS_MIN &&
	       beyond(now, law->limited_us) <= ACTIVE_US;
}

/* Takes in a round trip; whether there is something to exchange. */
always int sample(struct member *member, const struct law *law, __u64 rtt, __u64 now)
{
	__u64 slot = (now >> SLOT_SHIFT) & 0xffffffff, gives;

	if (slot != member->slot) {
		if (member->samples) {
			member->earlier_slot = member->ended_slot;
			member->earlier_us = member->ended_us;
			member->ended_slot = member->slot;
			member->ended_us = member->sum_us / member->samples;
			member->is_fresh = 1;
		}
		member->slot = slot;
		member->sum_us = 0;
		member->samples = 0;
	}
	if (rtt) {
		member->sum_us += smaller(rtt, 0xffffffff);
		member->samples++;
	}
	gives = member->is_joined && is_active(law, member, now);
	return member->is_fresh || member->bins_told != law->bins_written || gives != member->given.count;
}

always void lead(const struct member *member, const struct law *law, struct path *path, __u64 now)
{
	int has_measured = path->drain_from_us && law->drain_from_us != path->drain_from_us;

	path->led_us = now;
	if (has_measured || path->members.count < 2 || !path->floor_us)
		path->floor_us = law->floor_us;
	path->drain_from_us = law->drain_from_us;
	path->drain_until_us = law->drain_until_us;
	path->rate = larger(path->members.forecast, law->forecast);
	if (member->is_fresh) {
		__u32 place = member->ended_slot & (SLOTS - 1);

		path->slots[place] = member->ended_slot;
		path->means_us[place] = member->ended_us;
	}
}

always void compare(struct member *member, const struct path *path)
{
	__u32 place = member->earlier_slot & (SLOTS - 1);
	__u64 own = member->earlier_us, leaders, own_mean, leaders_mean, apart, spread;
	int is_alike;

	if (!member->earlier_slot || path->slots[place] != member->earlier_slot)
		return;
	leaders = path->means_us[place];
	if (!member->compared) {
		member->own_eighths = own * MEMORY_SLOTS;
		member->leaders_eighths = leaders * MEMORY_SLOTS;
	}
	own_mean = member->own_eighths / MEMORY_SLOTS;
	leaders_mean = member->leaders_eighths / MEMORY_SLOTS;
	apart = apart_by(own + leaders_mean, leaders + own_mean);
	spread = (apart_by(own, own_mean) + apart_by(leaders, leaders_mean)) / 2;
	member->apart = member->apart - member->apart / MEMORY_SLOTS + apart;
	member->spread = member->spread - member->spread / MEMORY_SLOTS + spread;
	member->own_eighths = member->own_eighths - own_mean + own;
	member->leaders_eighths = member->leaders_eighths - leaders_mean + leaders;
	member->compared = smaller(member->compared + 1, COMPARED_MAX);
	is_alike = (member->compared >= COMPARED_MIN && member->apart * ALIKE < member->spread) ||
		   (member->compared >= COMPARED_EARLY && member->apart * ALIKE_EARLY < member->spread);
	if (is_alike && member->spread > SPREAD_MIN_US * MEMORY_SLOTS)
		member->is_joined = 1;
	else if (member->apart > member->spread && member->apart > NOISE_US * MEMORY_SLOTS)
		member->is_joined = 0;
}

/* Puts what a member says in the place of what it has said. */
always void give(struct member *member, struct path *path, const struct shares *new)
{
	__sync_fetch_and_add(&path->members.count, new->count - member->given.count);
	__sync_fetch_and_add(&path->members.forecast, new->forecast - member->given.forecast);
	__sync_fetch_and_add(&path->members.recent, new->recent - member->given.recent);
	__sync_fetch_and_add(&path->members.headroom_ns, new->headroom_ns - member->given.headroom_ns);
	member->given = *new;
}

always void take(const struct member *member, const struct law *law, struct path *path, __u64 now,
		 struct peers *peers)
{
	if (!member->given.count || path->members.count < 2)
		return;
	peers->others.count = path->members.count - member->given.count;
	peers->others.forecast = path->members.forecast - member->given.forecast;
	peers->others.recent = path->members.recent - member->given.recent;
	peers->others.headroom_ns = path->members.headroom_ns - member->given.headroom_ns;
	path->floor_us = smaller(path->floor_us, law->floor_us);
	if (path->floor_us != law->floor_us)
		peers->floor_us = path->floor_us;
	if (!law->drain_from_us && now < path->drain_until_us) {
		peers->drain_from_us = path->drain_from_us;
		peers->drain_until_us = path->drain_until_us;
	}
}

/* Tells the path what a connection says, and `peers` what the others say; whether the law is to hear of it. */
once int exchange(struct member *member, const struct law *law, struct path *path, __u64 now, struct peers *peers)
{
	static const struct peers nothing = {};
	struct shares given = {};
	int leads, active;

	if (!member || !law || !path || !peers)
		return 0;
	active = is_active(law, member, now);
	if (active && path->leader != member->number && (!path->leader || beyond(now, path->led_us) > LED_US)) {
		if (!member->is_joined || member->group != path->group) {
			__sync_fetch_and_add(&path->group, 1);
			path->floor_us = 0;
			path->drain_from_us = 0;
			path->drain_until_us = 0;
		}
		path->leader = member->number;
	}
	leads = path->leader == member->number;
	if (member->group != path->group) {
		member->group = path->group;
		member->is_joined = 0;
	}
	if (member->leader != path->leader) {
		member->leader = path->leader;
		member->compared = 0;
		member->apart = 0;
		member->spread = 0;
	}
	if (leads)
		member->is_joined = 1;
	if (leads && active)
		lead(member, law, path, now);
	else if (member->is_fresh && !leads)
		compare(member, path);
	member->is_fresh = 0;
	member->bins_told = law->bins_written;
	if (active && member->is_joined) {
		given.count = 1;
		given.forecast = law->forecast;
		given.recent = recent(law);
		given.headroom_ns = law->headroom_ns;
	}
	give(member, path, &given);
	*peers = nothing;
	take(member, law, path, now, peers);
	return peers->others.count != law->others || peers->others.forecast != law->others_forecast ||
	       peers->others.recent != law->others_recent || peers->others.headroom_ns != law->others_headroom_ns ||
	       peers->floor_us || peers->drain_from_us || peers->drain_until_us;
}

once int leave(struct member *member, struct path *path)
{
	static const struct shares nothing = {};

	if (!member || !path)
		return 0;
	give(member, path, &nothing);
	if (path->leader == member->number)
		path->leader = 0;
	member->leader = 0;
	member->is_joined = 0;
	return 0;
}

always void on_peers(struct law *law, const struct peers *peers, __u64 now)
{
	law->others = peers->others.count;
	law->others_forecast = peers->others.forecast;
	law->others_recent = peers->others.recent;
	law->others_headroom_ns = peers->others.headroom_ns;
	if (peers->floor_us) {
		law->floor_us = peers->floor_us;
		law->confirmed_us = now;
		law->age_max_us = FLOOR_AGE_US;
	}
	if (peers->drain_from_us && !law->drain_from_us) {
		law->drain_from_us = larger(peers->drain_from_us, now);
		law->drain_until_us = peers->drain_until_us;
	}
	update(law);
}

always void on_hint(struct law *law, __u64 window)
{
	law->start_window = smaller(window, BYTES_MAX);
	update(law);
}

#endif
