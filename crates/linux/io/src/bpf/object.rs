//! [`Object`]: programs that a compiler made, with their maps, loaded by libbpf.
//!
//! libbpf relocates and loads; what a program is attached to ends with the [`Hooked`], as with
//! assembled ones.

use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd};

use libbpf_rs::{
    AsRawLibbpf, MapCore, MapFlags, MapHandle, MapInfo, MapType, ObjectBuilder, OpenObject, PrintLevel,
    ProgramInput, RingBufferBuilder, TC_EGRESS, TC_INGRESS, TcHook,
};

use super::load::{FILTER_PRIORITY, Hook, Load, NAME_LEN};
use super::program::{Attachment, explained};
use super::system;
use super::system::TcDirection;
use crate::IoError;
use crate::netlink::InterfaceIndex;

/// The map of a compiled program's constants.
const CONSTANTS: &str = ".rodata.settings";

/// A compiled program at work on an interface; it ends with the value.
#[derive(Debug)]
pub enum Hooked {
    /// It ends with the process too.
    Link(Attachment),
    /// It stays when the process dies.
    Filter(Filter),
}

impl Hooked {
    /// Kind of hook that holds the program: `tcx`, or `clsact` where the kernel is older.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Link(_) => "tcx",
            Self::Filter(_) => "clsact",
        }
    }
}

/// Loaded programs and their maps; they go with the value, once they are attached nowhere.
#[derive(Debug)]
pub struct Object {
    object: libbpf_rs::Object,
    name: String,
}

thread_local! {
    /// Messages of libbpf while this thread loaded something: the verifier's log is in it.
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

#[allow(clippy::needless_pass_by_value)] // As libbpf wants it.
fn note(_: PrintLevel, text: String) {
    SAID.with_borrow_mut(|said| said.push_str(&text));
}

impl Load<'_> {
    fn open(&self) -> Result<OpenObject, libbpf_rs::Error> {
        let mut builder = ObjectBuilder::default();
        if let Some(path) = self.btf {
            builder.btf_custom_path(path)?;
        }
        builder.open_memory(self.elf)
    }

    fn invalid(&self, why: String) -> IoError {
        IoError::Invalid { what: format!("load the BPF programs '{}'", self.name), why }
    }

    /// Writes constants and the name.
    fn fill(&self, open: &mut OpenObject) -> Result<(), IoError> {
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if let Some((control, _)) = self.congestion_control
                && map.map_type() == MapType::StructOps
                && control != name
            {
                // Of several only one is loaded, with its programs.
                map.set_autocreate(false).map_err(|error| self.invalid(format!("{error:#}")))?;
            }
            if name.ends_with(CONSTANTS)
                && let Some(memory) = map.initial_value_mut()
            {
                let len = memory.len();
                let place = memory.get_mut(..self.constants.len()).ok_or_else(|| {
                    self.invalid(format!(
                        "{} bytes of constants, of which it has {len}",
                        self.constants.len()
                    ))
                })?;
                place.copy_from_slice(self.constants);
            }
            if let Some((control, wanted)) = self.congestion_control.filter(|(control, _)| *control == name) {
                // `name` is the first member of struct tcp_congestion_ops as the programs write it.
                let memory = map.initial_value_mut().and_then(|memory| memory.get_mut(..NAME_LEN));
                let memory = memory.ok_or_else(|| self.invalid(format!("'{control}' has no name")))?;
                if wanted.len() >= NAME_LEN {
                    return Err(self.invalid(format!("'{wanted}' is longer than 15 bytes")));
                }
                memory.fill(0);
                memory[..wanted.len()].copy_from_slice(wanted.as_bytes());
            }
        }
        for mut program in open.progs_mut() {
            if self.also.iter().any(|wanted| program.name() == *wanted) {
                program.set_autoload(true);
            }
        }
        Ok(())
    }
}

/// The programs of an object as they would be loaded, relocated by [`Load::btf`], or by the running kernel's BTF: names
/// and instructions. Nothing is loaded.
///
/// # Errors
/// When the privilege is missing, or the object cannot be relocated by that BTF.
pub fn relocated(load: &Load<'_>) -> Result<Vec<(String, Vec<u64>)>, IoError> {
    libbpf_rs::set_print(Some((PrintLevel::Warn, note)));
    SAID.take();
    let what = || format!("relocate the BPF programs '{}'", load.name);
    let mut open = load.open().map_err(|error| refused(what(), &error, SAID.take()))?;
    load.fill(&mut open)?;
    // SAFETY: the object is open and not loaded, as the function wants it.
    let done = unsafe { libbpf_rs::libbpf_sys::bpf_object__prepare(open.as_libbpf_object().as_ptr()) };
    if done != 0 {
        let error = libbpf_rs::Error::from_raw_os_error(-done);
        return Err(refused(what(), &error, SAID.take()));
    }
    let words = |program: &libbpf_rs::OpenProgram<'_>| {
        let instruction = |one: &libbpf_rs::libbpf_sys::bpf_insn| {
            let [offset_low, offset_high] = one.off.to_ne_bytes();
            let [a, b, c, d] = one.imm.to_ne_bytes();
            let registers = one.dst_reg() | one.src_reg() << 4;
            u64::from_ne_bytes([one.code, registers, offset_low, offset_high, a, b, c, d])
        };
        program.insns().iter().map(instruction).collect()
    };
    Ok(open.progs().map(|program| (program.name().to_string_lossy().into_owned(), words(&program))).collect())
}

impl Object {
    /// Loads the compiled object `elf`, with `constants` at the start of its constants.
    ///
    /// # Errors
    /// When the privilege is missing, it is no object file, or the verifier refuses a program.
    pub fn load(name: &str, elf: &[u8], constants: &[u8]) -> Result<Self, IoError> {
        Self::load_with(&Load { name, elf, constants, ..Load::default() })
    }

    /// Loads an object as `load` says.
    ///
    /// # Errors
    /// When the privilege is missing, it is no object file, or the verifier refuses a program: with its log
    /// ([`IoError::log`]).
    pub fn load_with(load: &Load<'_>) -> Result<Self, IoError> {
        libbpf_rs::set_print(Some((PrintLevel::Warn, note)));
        SAID.take();
        let failed = |doing: &str, error: libbpf_rs::Error| {
            let what = format!("{doing} the BPF programs '{}'", load.name);
            match error.kind() {
                libbpf_rs::ErrorKind::PermissionDenied if SAID.with_borrow(|said| !is_verifiers(said)) => {
                    explained(what, std::io::Error::from_raw_os_error(libc::EPERM))
                }
                _ => refused(what, &error, SAID.take()),
            }
        };
        let mut open = load.open().map_err(|error| failed("read", error))?;
        load.fill(&mut open)?;
        let object = open.load().map_err(|error| failed("load", error))?;
        Ok(Self { object, name: load.name.to_owned() })
    }

    /// Registers the congestion control in `map`, for all network namespaces; it is taken away with the value. Sockets
    /// that use it then go on with it.
    ///
    /// # Errors
    /// When one of that name is there, or the kernel is older than Linux 6.4.
    pub fn register(&mut self, map: &str) -> Result<Registered, IoError> {
        SAID.take();
        let lacks = self.lacks("map", map);
        let found = self.object.maps_mut().find(|found| found.name() == map);
        let link = found.ok_or(lacks)?.attach_struct_ops().map_err(|error| {
            let what = format!("register the congestion control of the BPF programs '{}'", self.name);
            match error.kind() {
                libbpf_rs::ErrorKind::AlreadyExists => {
                    IoError::System { what, source: std::io::Error::from_raw_os_error(libc::EEXIST) }
                }
                _ => refused(what, &error, SAID.take()),
            }
        })?;
        Ok(Registered { _link: link })
    }

    fn program(&self, name: &str) -> Result<libbpf_rs::ProgramMut<'_>, IoError> {
        let found = self.object.progs_mut().find(|program| program.name() == name);
        found.ok_or_else(|| self.lacks("program", name))
    }

    fn lacks(&self, kind: &str, name: &str) -> IoError {
        IoError::Invalid {
            what: format!("use the BPF programs '{}'", self.name),
            why: format!("they have no {kind} '{name}'"),
        }
    }

    /// Sets the program called `program` to work on what passes `interface`, behind programs that are there:
    /// by tcx (Linux 6.6 and later), else as a filter of a clsact qdisc.
    ///
    /// # Errors
    /// When the interface is gone, or the kernel has neither.
    pub fn attach(
        &self,
        program: &str,
        interface: InterfaceIndex,
        direction: TcDirection,
        hook: Hook,
    ) -> Result<Hooked, IoError> {
        let found = self.program(program)?;
        let what = || format!("attach the BPF program '{program}' to interface {}", interface.get());
        if hook != Hook::Filter {
            match system::attach(found.as_fd(), interface.get(), direction) {
                Ok(link) => return Ok(Hooked::Link(Attachment::new(link))),
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) && hook == Hook::Any => {}
                Err(error) => return Err(explained(what(), error)),
            }
        }
        Filter::attach(found.as_fd(), interface, direction).map(Hooked::Filter).map_err(|error| {
            IoError::Invalid { what: format!("{} as a filter of clsact", what()), why: format!("{error:#}") }
        })
    }

    /// Sets the program called `program` to work on the TCP sockets of all processes of a control group (version 2, such
    /// as [`super::root_group`]) and of those below it, in every network namespace (`SEC("sockops")`).
    ///
    /// # Errors
    /// When it is no control group, or the kernel refuses.
    pub fn attach_to_group(&self, program: &str, group: &impl AsFd) -> Result<Attachment, IoError> {
        let found = self.program(program)?;
        let link = system::attach_to_group(found.as_fd(), group.as_fd());
        let what = || format!("attach the BPF program '{program}' to a control group");
        Ok(Attachment::new(link.map_err(|error| explained(what(), error))?))
    }

    /// The map called `name`.
    ///
    /// # Errors
    /// When there is none.
    pub fn map(&self, name: &str) -> Result<MapView, IoError> {
        let found = self.object.maps().find(|map| map.name().to_string_lossy().ends_with(name));
        let found = found.ok_or_else(|| self.lacks("map", name))?;
        let handle = MapHandle::try_from(&found).map_err(|error| view_failed(name, &error))?;
        Ok(MapView { handle, name: name.to_owned() })
    }

    /// Lets the program called `program` handle the frame `packet`, as if it had passed an interface
    /// (`BPF_PROG_TEST_RUN`); the frame as the program leaves it.
    ///
    /// # Errors
    /// When the kernel refuses the frame.
    pub fn test(&self, program: &str, packet: &[u8]) -> Result<Vec<u8>, IoError> {
        let found = self.program(program)?;
        let mut out = vec![0; packet.len()];
        let input =
            ProgramInput { data_in: Some(packet), data_out: Some(&mut out), ..ProgramInput::default() };
        found.test_run(input).map_err(|error| IoError::Invalid {
            what: format!("test the BPF program '{program}'"),
            why: format!("{error:#}"),
        })?;
        Ok(out)
    }
}

/// True when the verifier has said something.
fn is_verifiers(said: &str) -> bool {
    said.contains("BEGIN PROG LOAD LOG")
}

/// One line, with the whole log behind it.
fn refused(what: String, error: &libbpf_rs::Error, log: String) -> IoError {
    let verdict = log.split("-- BEGIN PROG LOAD LOG --").nth(1).and_then(|log| {
        let lines = log.split("-- END PROG LOAD LOG --").next()?.lines().map(str::trim);
        let mut backwards = lines.rev();
        backwards.find(|line| !line.is_empty() && !line.starts_with("processed "))
    });
    let said = || log.lines().last().map(|line| line.trim_start_matches("libbpf: ").to_owned());
    let why = match verdict {
        Some(line) => format!("the kernel's verifier says: {line}"),
        None => said().map_or_else(|| format!("{error:#}"), |line| format!("{error:#} ({line})")),
    };
    IoError::Refused { what, why, log }
}

/// A congestion control that programs can choose.
#[derive(Debug)]
pub struct Registered {
    _link: libbpf_rs::Link,
}

fn view_failed(name: &str, error: &libbpf_rs::Error) -> IoError {
    IoError::Invalid { what: format!("read the BPF map '{name}'"), why: format!("{error:#}") }
}

/// A map of programs, of this process or another.
#[derive(Debug)]
pub struct MapView {
    handle: MapHandle,
    name: String,
}

impl MapView {
    /// The map with a number, as [`MapView::id`] says it.
    ///
    /// # Errors
    /// When it is gone, or the privilege is missing.
    pub fn by_id(id: u32) -> Result<Self, IoError> {
        let handle = MapHandle::from_map_id(id).map_err(|error| view_failed(&id.to_string(), &error))?;
        let name = handle.name().to_string_lossy().into_owned();
        Ok(Self { handle, name })
    }

    /// Bytes of a value.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn value_len(&self) -> Result<u32, IoError> {
        MapInfo::new(self.handle.as_fd())
            .map(|info| info.info.value_size)
            .map_err(|error| view_failed(&self.name, &error))
    }

    /// Its number, by which other processes find it.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn id(&self) -> Result<u32, IoError> {
        MapInfo::new(self.handle.as_fd())
            .map(|info| info.info.id)
            .map_err(|error| view_failed(&self.name, &error))
    }

    /// The value of `key`, if there is one.
    ///
    /// # Errors
    /// When the kernel refuses, as a key of another length.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, IoError> {
        self.handle.lookup(key, MapFlags::ANY).map_err(|error| view_failed(&self.name, &error))
    }

    /// Writes the value of `key`.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set(&self, key: &[u8], value: &[u8]) -> Result<(), IoError> {
        self.handle.update(key, value, MapFlags::ANY).map_err(|error| view_failed(&self.name, &error))
    }

    /// Takes away the element of `key`; none is no error.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn remove(&self, key: &[u8]) -> Result<(), IoError> {
        match self.handle.delete(key) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => {
                Err(view_failed(&self.name, &error))
            }
            _ => Ok(()),
        }
    }

    /// Hands over what programs have written to this ring since the last call.
    ///
    /// # Errors
    /// When it is no ring.
    pub fn drain(&self, mut each: impl FnMut(&[u8])) -> Result<(), IoError> {
        let mut builder = RingBufferBuilder::new();
        let take = |bytes: &[u8]| {
            each(bytes);
            0
        };
        builder.add(&self.handle, take).map_err(|error| view_failed(&self.name, &error))?;
        let ring = builder.build().map_err(|error| view_failed(&self.name, &error))?;
        ring.consume().map_err(|error| view_failed(&self.name, &error))
    }

    /// All elements; those that come or go meanwhile may be missing.
    #[must_use]
    pub fn elements(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let value = |key: Vec<u8>| Some((self.get(&key).ok().flatten()?, key));
        self.handle.keys().filter_map(value).map(|(value, key)| (key, value)).collect()
    }
}

/// A program as a filter of a clsact qdisc: for kernels without tcx. It stays when the process dies;
/// [`remove_filters`] takes it away then.
#[derive(Debug)]
pub struct Filter {
    hook: TcHook,
}

impl Filter {
    fn attach(
        program: BorrowedFd<'_>,
        interface: InterfaceIndex,
        direction: TcDirection,
    ) -> Result<Self, libbpf_rs::Error> {
        let mut hook = place(program, interface, direction);
        hook.create()?;
        Ok(Self { hook: hook.attach()? })
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        // The interface may be gone, and the filter with it.
        drop(self.hook.detach());
    }
}

const FILTER_HANDLE: u32 = 0xce11;

fn place(program: BorrowedFd<'_>, interface: InterfaceIndex, direction: TcDirection) -> TcHook {
    let mut hook = TcHook::new(program);
    hook.ifindex(interface.get().cast_signed())
        .attach_point(match direction {
            TcDirection::In => TC_INGRESS,
            TcDirection::Out => TC_EGRESS,
        })
        .priority(FILTER_PRIORITY.into())
        .handle(FILTER_HANDLE);
    hook
}

/// Removes filters of ours from `interface`, as a killed process leaves them; with the clsact qdisc if it was made
/// for them.
///
/// # Errors
/// When there is no `/dev/null`.
pub fn remove_filters(interface: InterfaceIndex, with_qdisc: bool) -> Result<(), IoError> {
    // Nothing is attached: any descriptor will do.
    let any = std::fs::File::open("/dev/null").map_err(|error| IoError::system("open /dev/null", error))?;
    for direction in [TcDirection::In, TcDirection::Out] {
        // None may be there.
        drop(place(any.as_fd(), interface, direction).detach());
    }
    if with_qdisc {
        let mut both = TcHook::new(any.as_fd());
        both.ifindex(interface.get().cast_signed()).attach_point(TC_INGRESS | TC_EGRESS);
        drop(both.destroy());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_the_verifiers_last_word_and_keeps_its_log() {
        let log = "libbpf: prog 'p': BPF program load failed: -EACCES\nlibbpf: prog 'p': -- BEGIN PROG LOAD LOG --\n\
                   0: R1=ctx()\n; x = *y; @ a.c:1\n1: (79) r0 = *(u64 *)(r1 +99)\nR1 invalid mem access 'scalar'\n\
                   processed 2 insns (limit 1000000)\n-- END PROG LOAD LOG --\nlibbpf: failed to load object";
        let error = refused(
            "load 'x'".to_owned(),
            &libbpf_rs::Error::from_raw_os_error(libc::EACCES),
            log.to_owned(),
        );
        let line = "cannot load 'x': the kernel's verifier says: R1 invalid mem access 'scalar'";
        assert_eq!((error.to_string().as_str(), error.log()), (line, Some(log)));
        assert!(is_verifiers(log));
        let other = "libbpf: struct_ops init_kern: no such struct";
        let error = refused(
            "load 'x'".to_owned(),
            &libbpf_rs::Error::from_raw_os_error(libc::EINVAL),
            other.to_owned(),
        );
        assert!(error.to_string().ends_with("(struct_ops init_kern: no such struct)"), "{error}");
        assert!(!is_verifiers(other));
    }
}
