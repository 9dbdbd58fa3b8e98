//! `cellerator dashboard` in a real browser, Debian's Chromium, beside an accelerator that works. As root, in network
//! namespaces of their own; `make chromium`.

mod browser;
mod pages;
