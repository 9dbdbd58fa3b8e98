//! `cellerator probe` as a user runs it.

mod all;
mod bench;
mod hops;
mod link;
mod loopback;
mod middlebox;
mod paths;
mod record;
mod truth;
