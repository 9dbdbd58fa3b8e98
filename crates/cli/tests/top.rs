//! `cellerator top` and `status --watch` beside an accelerator that works; the view in a real terminal, tmux's. As
//! root, in network namespaces of their own.

mod plain;
mod record;
mod remote;
mod terminal;
