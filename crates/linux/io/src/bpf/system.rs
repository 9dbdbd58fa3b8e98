//! bpf(2): one function per command, each with the part of `union bpf_attr` that it reads.
//!
//! The kernel takes a shorter union for one whose rest is zero, so each command has a structure of
//! its own. All of them are `#[repr(C)]`, without padding, and made of integers. An address in them is exposed
//! ([`exposed`], [`exposed_mut`]): the kernel reads and writes through it, and the compiler has to know.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::Instruction;

const MAP_CREATE: libc::c_long = 0;
const MAP_LOOKUP: libc::c_long = 1;
const MAP_UPDATE: libc::c_long = 2;
const MAP_DELETE: libc::c_long = 3;
const PROGRAM_LOAD: libc::c_long = 5;
const PROGRAM_BY_ID: libc::c_long = 13;
const INFO_BY_FD: libc::c_long = 15;
const PROGRAM_QUERY: libc::c_long = 16;
const LINK_CREATE: libc::c_long = 28;
const LINK_BY_ID: libc::c_long = 30;
const NEXT_LINK: libc::c_long = 31;
const ENABLE_STATISTICS: libc::c_long = 32;
const LINK_DETACH: libc::c_long = 34;

/// `BPF_PROG_TYPE_SCHED_CLS`.
pub(super) const TRAFFIC_CONTROL: u32 = 3;
/// `BPF_PROG_TYPE_SOCKET_FILTER`.
pub(super) const SOCKET_FILTER: u32 = 1;
/// `BPF_PROG_TYPE_SOCK_OPS`.
pub(super) const SOCKET_OPERATIONS: u32 = 13;
/// `BPF_PROG_TYPE_NETFILTER` and `BPF_NETFILTER`, Linux 6.4 and later.
pub(super) const NETFILTER: u32 = 32;
const AT_NETFILTER: u32 = 45;
/// `BPF_CGROUP_SOCK_OPS`.
const GROUP_SOCKET_OPERATIONS: u32 = 3;
/// `BPF_TCX_INGRESS` and `BPF_TCX_EGRESS`, Linux 6.6 and later.
const TCX_INGRESS: u32 = 46;
const TCX_EGRESS: u32 = 47;
/// The kernel's helpers are for programs under its own licence.
const LICENCE: &std::ffi::CStr = c"GPL";

/// Longest name of a program or map, without the zero behind it.
pub(super) const NAME_LEN_MAX: usize = 15;
/// Programs of one interface that are looked at.
const PROGRAMS_MAX: usize = 64;
/// Room for what the verifier says.
const LOG_LEN: usize = 1 << 18;

/// A name with zeros behind it.
pub(super) fn name(text: &str) -> [u8; NAME_LEN_MAX + 1] {
    let mut name = [0; NAME_LEN_MAX + 1];
    for (to, from) in name.iter_mut().take(NAME_LEN_MAX).zip(text.bytes()) {
        *to = from;
    }
    name
}

/// `attr` must be one of the structures here: integers without padding, as the command reads them.
///
/// # Safety
/// Every address in `attr` must be valid for what the command reads or writes there.
unsafe fn call<T>(command: libc::c_long, attr: &mut T) -> io::Result<libc::c_long> {
    // SAFETY: the kernel reads and writes `size_of::<T>()` bytes at `attr`, which are T's; the
    // caller answers for the addresses in it.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attr), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// # Safety
/// As [`call`], for a command that gives a descriptor.
unsafe fn open<T>(command: libc::c_long, attr: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: passed on to the caller.
    let fd = unsafe { call(command, attr) }?;
    // SAFETY: the command has just made this descriptor (closed on exec), and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// The address of something that the kernel reads.
fn exposed<T: ?Sized>(what: &T) -> u64 {
    std::ptr::from_ref(what).expose_provenance() as u64
}

/// The address of something that the kernel writes.
fn exposed_mut<T: ?Sized>(what: &mut T) -> u64 {
    std::ptr::from_mut(what).expose_provenance() as u64
}

fn number(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd().cast_unsigned()
}

/// Settings of a map to create.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct MapAttr {
    pub kind: u32,
    pub key_len: u32,
    pub value_len: u32,
    pub entries_max: u32,
    pub flags: u32,
    pub inner_map: u32,
    pub numa_node: u32,
    pub name: [u8; NAME_LEN_MAX + 1],
}

pub(super) fn create_map(mut attr: MapAttr) -> io::Result<OwnedFd> {
    // SAFETY: there are no addresses in it.
    unsafe { open(MAP_CREATE, &mut attr) }
}

#[repr(C)]
struct ElementAttr {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Only if the key is not there (`BPF_NOEXIST`).
const UNLESS_THERE: u64 = 1;

/// The value of `key`. The map must have keys and values of exactly these lengths.
pub(super) fn look_up<const K: usize, const V: usize>(
    map: BorrowedFd<'_>,
    key: &[u8; K],
) -> io::Result<[u8; V]> {
    let mut value = [0; V];
    let out = exposed_mut(&mut value);
    let mut attr = ElementAttr { map: number(map), padding: 0, key: exposed(key), value: out, flags: 0 };
    // SAFETY: the kernel reads the map's key length at `key` and writes its value length at
    // `value`, which are K and V.
    unsafe { call(MAP_LOOKUP, &mut attr) }.map(|_| value)
}

/// Whether the element whose key is zeros is there (`ENOENT` where it is not). The map must have keys and values of
/// exactly these lengths, bytes; what is none is refused (`EINVAL`).
pub(super) fn has_zero_key(map: BorrowedFd<'_>, key_len: usize, value_len: usize) -> io::Result<()> {
    let (key, mut value) = (vec![0_u8; key_len], vec![0_u8; value_len]);
    let (key, value) = (exposed(key.as_slice()), exposed_mut(value.as_mut_slice()));
    let mut attr = ElementAttr { map: number(map), padding: 0, key, value, flags: 0 };
    // SAFETY: the kernel reads the map's key length and writes its value length there.
    unsafe { call(MAP_LOOKUP, &mut attr) }.map(drop)
}

/// Adds an element that must not be there. The map must have keys and values of exactly these lengths.
pub(super) fn insert<const K: usize, const V: usize>(
    map: BorrowedFd<'_>,
    key: &[u8; K],
    value: &[u8; V],
) -> io::Result<()> {
    let (key, value) = (exposed(key), exposed(value));
    let mut attr = ElementAttr { map: number(map), padding: 0, key, value, flags: UNLESS_THERE };
    // SAFETY: the kernel reads the map's key and value lengths there, which are K and V.
    unsafe { call(MAP_UPDATE, &mut attr) }.map(drop)
}

/// Deletes an element. The map must have keys of exactly this length.
pub(super) fn delete<const K: usize>(map: BorrowedFd<'_>, key: &[u8; K]) -> io::Result<()> {
    let mut attr = ElementAttr { map: number(map), padding: 0, key: exposed(key), value: 0, flags: 0 };
    // SAFETY: the kernel reads the map's key length there, which is K.
    unsafe { call(MAP_DELETE, &mut attr) }.map(drop)
}

#[repr(C)]
struct ProgramAttr {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    licence: u64,
    log_level: u32,
    log_len: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; NAME_LEN_MAX + 1],
    interface: u32,
    attach_type: u32,
}

/// Loads a program of a kind; the error comes with what the verifier said of it.
pub(super) fn load(
    kind: u32,
    program: &[Instruction],
    name_text: &str,
) -> Result<OwnedFd, (io::Error, String)> {
    let mut attr = ProgramAttr {
        kind,
        instruction_count: program.len() as u32,
        instructions: exposed(program),
        licence: exposed(LICENCE),
        log_level: 0,
        log_len: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
        name: name(name_text),
        interface: 0,
        attach_type: if kind == NETFILTER { AT_NETFILTER } else { 0 },
    };
    // SAFETY: the kernel reads as many instructions as there are, and a C string.
    let first = unsafe { open(PROGRAM_LOAD, &mut attr) };
    let error = match first {
        Ok(fd) => return Ok(fd),
        // Without the privilege the verifier has not even looked.
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => return Err((error, String::new())),
        Err(error) => error,
    };
    let mut log = vec![0u8; LOG_LEN];
    (attr.log_level, attr.log_len, attr.log) = (1, LOG_LEN as u32, exposed_mut(log.as_mut_slice()));
    // SAFETY: as above, and the kernel writes at most `log_len` bytes to `log`, which lives until the end.
    let second = unsafe { open(PROGRAM_LOAD, &mut attr) };
    let text: Vec<u8> = log.into_iter().take_while(|byte| *byte != 0).collect();
    second.map_err(|_| (error, String::from_utf8_lossy(&text).into_owned()))
}

#[repr(C)]
struct LinkAttr {
    program: u32,
    /// Or a control group's descriptor.
    interface: u32,
    attach_type: u32,
    flags: u32,
    relative: u32,
    padding: u32,
    revision: u64,
}

/// Direction of the packets of an interface that a program sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcDirection {
    /// Those that come in.
    In,
    /// Those that go out.
    Out,
}

/// Attaches a program to what comes in or goes out through an interface, behind those that are there.
pub(super) fn attach(program: BorrowedFd<'_>, interface: u32, direction: TcDirection) -> io::Result<OwnedFd> {
    let mut attr = LinkAttr {
        program: number(program),
        interface,
        attach_type: match direction {
            TcDirection::In => TCX_INGRESS,
            TcDirection::Out => TCX_EGRESS,
        },
        flags: 0,
        relative: 0,
        padding: 0,
        revision: 0,
    };
    // SAFETY: there are no addresses in it.
    unsafe { open(LINK_CREATE, &mut attr) }
}

/// Attaches a program to the sockets of a control group and of those below it, beside those that are there.
pub(super) fn attach_to_group(program: BorrowedFd<'_>, group: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut attr = LinkAttr {
        program: number(program),
        interface: number(group),
        attach_type: GROUP_SOCKET_OPERATIONS,
        flags: 0,
        relative: 0,
        padding: 0,
        revision: 0,
    };
    // SAFETY: there are no addresses in it.
    unsafe { open(LINK_CREATE, &mut attr) }
}

/// Ends the work of a link, whoever else has a descriptor of it.
pub(super) fn detach(link: BorrowedFd<'_>) -> io::Result<()> {
    let mut attr = number(link);
    // SAFETY: there are no addresses in it.
    unsafe { call(LINK_DETACH, &mut attr) }.map(|_| ())
}

#[repr(C)]
struct QueryAttr {
    interface: u32,
    attach_type: u32,
    query_flags: u32,
    attach_flags: u32,
    ids: u64,
    count: u32,
    padding: u32,
    attach_flags_each: u64,
    links: u64,
    link_flags: u64,
    revision: u64,
}

/// The numbers of the programs at what comes in through an interface.
pub(super) fn query(interface: u32) -> io::Result<Vec<u32>> {
    let mut ids = [0u32; PROGRAMS_MAX];
    let mut attr = QueryAttr {
        interface,
        attach_type: TCX_INGRESS,
        query_flags: 0,
        attach_flags: 0,
        ids: exposed_mut(&mut ids),
        count: PROGRAMS_MAX as u32,
        padding: 0,
        attach_flags_each: 0,
        links: 0,
        link_flags: 0,
        revision: 0,
    };
    // SAFETY: the kernel writes at most `count` numbers to `ids`; the other addresses are none.
    unsafe { call(PROGRAM_QUERY, &mut attr) }?;
    Ok(ids.into_iter().take(attr.count as usize).collect())
}

/// `BPF_STATS_RUN_TIME`.
const RUN_TIME: u32 = 0;

/// Has the kernel measure how long programs run, until the descriptor is closed (Linux 5.8).
pub(super) fn measure_run_time() -> io::Result<OwnedFd> {
    let mut attr = RUN_TIME;
    // SAFETY: there are no addresses in it.
    unsafe { open(ENABLE_STATISTICS, &mut attr) }
}

#[repr(C)]
struct IdAttr {
    id: u32,
    next: u32,
    flags: u32,
}

#[repr(C)]
struct InfoAttr {
    fd: u32,
    len: u32,
    info: u64,
}

/// Of `struct bpf_prog_info` what lies before and with the number of runs, in words; shorter where the kernel's is.
const INFO_WORDS: usize = 26;
const INFO_NAME: usize = 64;
const INFO_RUN_NS: usize = 24;
const INFO_RUNS: usize = 25;

/// Description of a map, `struct bpf_map_info` up to its flags; of something that is no map it is nonsense,
/// or an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct MapInfo {
    pub kind: u32,
    pub id: u32,
    pub key_len: u32,
    pub value_len: u32,
    pub entries_max: u32,
    pub flags: u32,
}

pub(super) fn map_info(map: BorrowedFd<'_>) -> io::Result<MapInfo> {
    let mut info = MapInfo::default();
    let len = size_of::<MapInfo>() as u32;
    let mut attr = InfoAttr { fd: number(map), len, info: exposed_mut(&mut info) };
    // SAFETY: the kernel writes at most `len` bytes to `info`, which has as many and is made of integers.
    unsafe { call(INFO_BY_FD, &mut attr) }?;
    Ok(info)
}

/// Of `struct bpf_link_info` what lies before the interface of a program at tcx: three numbers and padding.
const LINK_INFO_WORDS: usize = 8;
const LINK_INFO_INTERFACE: usize = 2;

/// The number of the interface at which a program is (tcx); 0 when it is at none any more.
pub(super) fn interface_of(link: BorrowedFd<'_>) -> io::Result<u32> {
    let mut info = [0u64; LINK_INFO_WORDS];
    let len = size_of_val(&info) as u32;
    let mut attr = InfoAttr { fd: number(link), len, info: exposed_mut(&mut info) };
    // SAFETY: the kernel writes at most `len` bytes to `info`, which is aligned and has as many.
    unsafe { call(INFO_BY_FD, &mut attr) }?;
    let [a, b, c, d, ..] = info[LINK_INFO_INTERFACE].to_ne_bytes();
    Ok(u32::from_ne_bytes([a, b, c, d]))
}

/// `BPF_LINK_TYPE_NETFILTER`, and where `struct bpf_link_info` has a link's kind, program, and, of that kind, family
/// and hook.
const LINK_TO_NETFILTER: u32 = 10;

/// A program at a hook of netfilter's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NetfilterLink {
    pub program: u32,
    /// `NFPROTO_…`.
    pub family: u32,
    /// `NF_INET_…`.
    pub hook: u32,
    pub priority: i32,
}

#[repr(C)]
struct NetfilterLinkAttr {
    program: u32,
    target: u32,
    attach_type: u32,
    flags: u32,
    family: u32,
    hook: u32,
    priority: i32,
    netfilter_flags: u32,
}

/// Attaches a program at the place of `link` in the calling thread's network namespace: `EBUSY` where another BPF
/// program has it.
pub(super) fn attach_to_netfilter(program: BorrowedFd<'_>, link: NetfilterLink) -> io::Result<OwnedFd> {
    let NetfilterLink { family, hook, priority, .. } = link;
    let mut attr = NetfilterLinkAttr {
        program: number(program),
        target: 0,
        attach_type: AT_NETFILTER,
        flags: 0,
        family,
        hook,
        priority,
        netfilter_flags: 0,
    };
    // SAFETY: there are no addresses in it.
    unsafe { open(LINK_CREATE, &mut attr) }
}

/// The link with a number, unless it has gone. While a link is being made the kernel answers `EAGAIN`: it is asked
/// again, for a link that is not seen would be a filter that is bypassed.
fn link_of(id: u32) -> Option<OwnedFd> {
    const TRIES: u32 = 10_000;
    for _ in 0..TRIES {
        let mut attr = IdAttr { id, next: 0, flags: 0 };
        // SAFETY: there are no addresses in it.
        match unsafe { open(LINK_BY_ID, &mut attr) } {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
            opened => return opened.ok(),
        }
    }
    None
}

/// All of the machine, in whatever network namespace.
pub(super) fn netfilter_links() -> io::Result<Vec<NetfilterLink>> {
    let (mut all, mut last) = (Vec::new(), 0);
    loop {
        let mut attr = IdAttr { id: last, next: 0, flags: 0 };
        // SAFETY: there are no addresses in it.
        match unsafe { call(NEXT_LINK, &mut attr) } {
            Ok(_) => last = attr.next,
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(all),
            Err(error) => return Err(error),
        }
        // It has gone since.
        let Some(link) = link_of(last) else { continue };
        let mut info = [0_u32; 2 * LINK_INFO_WORDS];
        let len = size_of_val(&info) as u32;
        let mut attr = InfoAttr { fd: link.as_raw_fd().cast_unsigned(), len, info: exposed_mut(&mut info) };
        // SAFETY: the kernel writes at most `len` bytes to `info`, which has as many and is made of integers; the
        // addresses in it are none, and it writes nowhere else.
        if unsafe { call(INFO_BY_FD, &mut attr) }.is_err() {
            // One of another kind, which is being undone. Those behind it are wanted.
            continue;
        }
        let [kind, _, program, _, family, hook, priority, ..] = info;
        if kind == LINK_TO_NETFILTER {
            all.push(NetfilterLink { program, family, hook, priority: priority.cast_signed() });
        }
    }
}

/// Description of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProgramInfo {
    pub name: String,
    pub runs: u64,
    pub run_ns: u64,
}

/// Name and cost of the program with a number: what it has taken while the kernel counted that.
pub(super) fn program_info(id: u32) -> io::Result<ProgramInfo> {
    let mut attr = IdAttr { id, next: 0, flags: 0 };
    // SAFETY: there are no addresses in it.
    let program = unsafe { open(PROGRAM_BY_ID, &mut attr) }?;
    let mut info = [0u64; INFO_WORDS];
    let len = size_of_val(&info) as u32;
    let mut attr = InfoAttr { fd: program.as_raw_fd().cast_unsigned(), len, info: exposed_mut(&mut info) };
    // SAFETY: the kernel writes at most `len` bytes to `info`, which is aligned and has as many; the addresses in it
    // are none, and it writes nowhere else.
    unsafe { call(INFO_BY_FD, &mut attr) }?;
    let bytes = info.iter().flat_map(|word| word.to_ne_bytes()).skip(INFO_NAME);
    let name: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
    Ok(ProgramInfo {
        name: String::from_utf8_lossy(&name).into_owned(),
        runs: info[INFO_RUNS],
        run_ns: info[INFO_RUN_NS],
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn addresses_for_the_kernel_are_exposed() {
        let own = include_str!("system.rs");
        let bare = [".addr", "()"].concat();
        assert_eq!(own.matches(bare.as_str()).count(), 0, "the kernel would read and write behind its back");
        assert_eq!(own.matches("expose_provenance() as u64").count(), 3, "in one place each, and here");
    }
}
