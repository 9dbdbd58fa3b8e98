//! `cellerator metrics`, `events` and `export` beside an accelerator that works, each as a process of its own.
//! As root, in network namespaces of their own.

mod collectors;
mod metrics;
mod others;
mod streams;
