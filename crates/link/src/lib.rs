//! The cellular link model: traces, queues, loss, delay, radio events.
