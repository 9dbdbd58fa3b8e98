-- Ten questions to a dataset of `cellerator analyze --parquet`, in the SQL that DuckDB, DataFusion and Spark
-- have in common. A line `-- NAME: QUESTION` begins each.

-- per-day: How much is there per day?
SELECT date, count(*) AS flows, count(DISTINCT run) AS series,
  sum(a2b_unique_bytes + b2a_unique_bytes) AS bytes
FROM flows GROUP BY date ORDER BY date;

-- rtt-and-loss: Median RTT and retransmission share per /24 of clients and hour?
SELECT regexp_replace(CASE WHEN client = 1 THEN "second" ELSE "first" END, '[.][0-9]+:[0-9]+$', '') AS net,
  CAST(floor(start_ns / 3.6e12) AS BIGINT) AS hour, count(*) AS flows, median(b2a_rtt_karn_p50_ms) AS rtt_ms,
  100.0 * sum(b2a_retransmissions_data_packets) / sum(b2a_data_packets) AS again_percent
FROM flows GROUP BY 1, 2 ORDER BY 1, 2;

-- and-why: And why was it sent again there: the most frequent cause?
WITH causes AS (
  SELECT regexp_replace(CASE WHEN f.client = 1 THEN f."second" ELSE f."first" END, '[.][0-9]+:[0-9]+$', '') AS net,
    CAST(floor(f.start_ns / 3.6e12) AS BIGINT) AS hour, e.cause, count(*) AS n
  FROM events e JOIN flows f ON e.flow_id = f.flow_id
  WHERE e.event = 'retransmission' GROUP BY 1, 2, 3
), ranked AS (
  SELECT net, hour, cause, n, sum(n) OVER (PARTITION BY net, hour) AS all_n,
    row_number() OVER (PARTITION BY net, hour ORDER BY n DESC, cause) AS place
  FROM causes
)
SELECT net, hour, cause, n, 100.0 * n / all_n AS percent FROM ranked WHERE place = 1 ORDER BY net, hour;

-- goodput: How fast were transfers of 100 KB and more, per hour?
SELECT CAST(floor(start_ns / 3.6e12) AS BIGINT) AS hour, count(*) AS flows,
  median(8e-6 * b2a_unique_bytes / duration_s) AS mbit_s, min(8e-6 * b2a_unique_bytes / duration_s) AS slowest
FROM flows WHERE b2a_unique_bytes >= 100000 AND duration_s > 0 GROUP BY 1 ORDER BY 1;

-- queues: In which ten networks do queues lengthen the round trip most?
SELECT regexp_replace(CASE WHEN client = 1 THEN "second" ELSE "first" END, '[.][0-9]+:[0-9]+$', '') AS net,
  median(b2a_rtt_karn_p95_ms / b2a_rtt_karn_min_ms) AS times, count(*) AS flows
FROM flows WHERE b2a_rtt_karn_min_ms > 0 GROUP BY 1 ORDER BY times DESC, net LIMIT 10;

-- needless: What was sent again needlessly, and by which sign is that known?
SELECT coalesce("by", 'needed or unknown') AS known_by, event, count(*) AS n, sum(len) AS bytes
FROM events WHERE event IN ('retransmission', 'spurious') GROUP BY 1, 2 ORDER BY 1, 2;

-- busiest: Which ten seconds carried most data?
SELECT CAST(floor(epoch_s) AS BIGINT) AS second, sum(payload_bytes) AS bytes, sum(retransmitted_bytes) AS again
FROM seconds GROUP BY 1 ORDER BY bytes DESC, second LIMIT 10;

-- completion: How long did flows take that both ends closed, per environment (95th percentile by nearest rank)?
WITH ranked AS (
  SELECT env, duration_s, row_number() OVER (PARTITION BY env ORDER BY duration_s) AS place,
    count(*) OVER (PARTITION BY env) AS n
  FROM flows WHERE "end" = 'closed'
)
SELECT env, max(n) AS flows, median(duration_s) AS p50_s, min(CASE WHEN 20 * place >= 19 * n THEN duration_s END) AS p95_s,
  max(duration_s) AS longest_s
FROM ranked GROUP BY env ORDER BY env;

-- held-back: What held flows back?
SELECT sum(CASE WHEN diagnoses LIKE '%bufferbloat%' THEN 1 ELSE 0 END) AS bufferbloat,
  sum(CASE WHEN diagnoses LIKE '%application_limited%' THEN 1 ELSE 0 END) AS application_limited,
  sum(CASE WHEN diagnoses LIKE '%receive_window_limited%' THEN 1 ELSE 0 END) AS receive_window_limited,
  sum(CASE WHEN diagnoses LIKE '%time_outs%' THEN 1 ELSE 0 END) AS time_outs,
  count(*) AS flows
FROM flows;

-- samples: How are round-trip times spread over the day, from all samples?
SELECT CAST(floor(time_ns / 3.6e12) AS BIGINT) AS hour, count(karn_ms) AS samples, min(karn_ms) AS least_ms,
  median(karn_ms) AS median_ms, max(karn_ms) AS most_ms
FROM samples GROUP BY 1 ORDER BY 1;
