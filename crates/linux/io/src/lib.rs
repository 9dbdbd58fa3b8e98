//! TUN devices, netlink, BPF, namespaces, clocks and timers: the only crate with unsafe code.
//!
//! Everything here asks the operating system for something and reports in one line what failed, on
//! what, and what to do. There is no protocol logic.

mod af_packet;
pub mod bpf;
mod capabilities;
mod capture_ring;
mod clock;
mod confinement;
mod datagram_socket;
mod descriptors;
mod echo_socket;
mod error;
pub mod features;
mod frame_socket;
mod hop_socket;
mod huge_pages;
mod instance;
mod lifeline;
mod lines;
mod logged_program;
mod mapping;
mod mptcp_socket;
pub mod netlink;
mod netns;
pub mod offers;
mod owned_table;
mod paced_waiter;
mod packet_socket;
mod peer_credentials;
mod prefetch;
mod private_file;
mod process;
mod put_in_place;
mod raw_socket;
mod recorded;
mod ring_arena;
mod running_time;
pub mod sched;
mod segments;
mod service_manager;
mod shared_words;
mod signals;
mod spin_budget;
mod state_file;
pub mod sysctl;
mod system_journal;
mod tcp_image;
mod tcp_info;
mod tun;
mod waiter;

pub use capabilities::{Capabilities, Capability};
pub use capture_ring::{CaptureRing, Frame};
pub use clock::Clock;
pub use confinement::{Allowed, Confinement, confine, forgo_privileges};
pub use datagram_socket::{DatagramSocket, ReceivedDatagram};
pub use descriptors::{DESCRIPTORS_MAX, receive_with_descriptors, send_with_descriptors};
pub use echo_socket::EchoSocket;
pub use error::IoError;
pub use frame_socket::{FrameSocket, ReceivedFrame};
pub use hop_socket::{HopAnswer, HopSocket};
pub use huge_pages::{populate, prefer_huge_pages};
pub use instance::{
    INSTANCE_DIRECTORY, Instance, Leftover, OWNER, RECORD, RECORD_OF_DEAD, Running, try_lock, unlock,
};
pub use lifeline::{Lifeline, Tethered, await_hang_up};
pub use lines::{one_line, say};
pub use logged_program::{LoggedProgram, ProgramFailure};
pub use mptcp_socket::{
    connect_multi_path, find_congestion_control, is_multi_path, listen_multi_path, set_congestion_control,
};
pub use netns::{
    CableEnd, Host, Namespace, NamespaceId, OwnedChild, SpawnOptions, lay_cable, namespaces_in_use,
    set_death_signal,
};
pub use owned_table::OwnedTable;
pub use paced_waiter::PacedWaiter;
pub use packet_socket::{PacketSocket, ReceivedPacket};
pub use peer_credentials::Caller;
pub use prefetch::prefetch;
pub use private_file::{create_private, create_private_directory, effective_user, read_secret};
pub use process::{
    PidFd, ProcessId, end_process, raise_descriptor_limit, resident_bytes, resident_bytes_of, set_thread_name,
};
pub use put_in_place::put_in_place;
pub use raw_socket::RawSocket;
pub use recorded::Recorded;
pub use ring_arena::RingArena;
pub use running_time::RunningTime;
pub use segments::{Segments, SilentPort};
pub use service_manager::{ServiceManager, sign_of_life_within, take_stored};
pub use shared_words::SharedWords;
pub use signals::{Signals, ignore_signals};
pub use spin_budget::SpinBudget;
pub use state_file::{MappedState, StateFile};
pub use system_journal::{SystemJournal, is_journal_standard_error};
pub use tcp_image::TcpImage;
pub use tcp_info::{TcpInfo, save_syn, saved_syn, set_max_pacing_rate, set_window_clamp};
pub use tun::{
    Framing, Offloads, PACKET_LEN_MAX, PIECES_MAX, Tun, TunConfig, TunQueue, VNET_HEADER_LEN, VnetHeader,
};
pub use waiter::{Interest, Ready, Waiter};
