//! [`attach`]: programs at work until a signal comes; [`detach`]: the signal.

use io::bpf::{FILTER_PRIORITY, Hooked, TcDirection, require_objects};
use io::netlink::{InterfaceIndex, Netlink};
use io::{Clock, Instance, Interest, Namespace, Recorded, Signals, Waiter};
use units::Duration;

use crate::buffers::Buffers;
use crate::record::{Attached, KIND, Record, clean_up, kept_line, running};
use crate::{AttachArgs, DrwaError, DrwaPrograms, Setup};

/// Interval of the checks whether an interface has gone or come.
const LOOK: Duration = Duration::from_secs(1);
/// One interface; its programs remember their connections while it is away.
struct Port {
    name: String,
    program: DrwaPrograms,
    at: Option<InterfaceIndex>,
    attachments: Option<[Hooked; 2]>,
}

impl Port {
    fn load(name: &str, args: &AttachArgs, netlink: &Netlink) -> Result<Self, DrwaError> {
        let link = netlink.link(name)?;
        let header = link.header_len.ok_or_else(|| DrwaError::UnknownHeader(name.to_owned()))?;
        let setup = Setup {
            params: args.params(),
            link_header_len: header,
            selections: args.only.clone(),
            is_test: false,
        };
        Ok(Self { name: name.to_owned(), program: DrwaPrograms::load(&setup)?, at: None, attachments: None })
    }

    /// Attaches the programs to the interface, and returns the report on it.
    fn attach(&mut self, args: &AttachArgs, netlink: &Netlink) -> Result<Attached, DrwaError> {
        let index = netlink.index_of(&self.name)?;
        let had_qdisc = netlink.ingress_discipline(index)?.is_some();
        let attachments = self.program.attach(index, args.hook())?;
        let hook = attachments[0].kind();
        (self.at, self.attachments) = (Some(index), Some(attachments));
        let (connections_map, counts_map) = self.program.view()?.ids()?;
        Ok(Attached {
            interface: self.name.clone(),
            hook: hook.to_owned(),
            owns_qdisc: hook == "clsact" && !had_qdisc,
            connections_map,
            counts_map,
        })
    }
}

impl Port {
    /// One line about each direction in which filters of others decide before a filter of ours.
    fn filters_before(&self, netlink: &Netlink) -> Result<Vec<String>, DrwaError> {
        let is_filter = self.attachments.as_ref().is_some_and(|[first, _]| first.kind() == "clsact");
        let Some(index) = self.at.filter(|_| is_filter) else { return Ok(Vec::new()) };
        let mut lines = Vec::new();
        for (direction, word) in [(TcDirection::In, "ingress"), (TcDirection::Out, "egress")] {
            let all = netlink.filter_priorities(index, direction)?;
            let before: Vec<String> =
                all.iter().filter(|priority| **priority < FILTER_PRIORITY).map(u16::to_string).collect();
            if !before.is_empty() {
                let name = &self.name;
                lines.push(format!(
                    "warning: {name}: filters stand before this one at {word} (priority {}): it sees nothing of what they \
                     match; `tc filter show dev {name} {word}` lists them, --hook tcx attaches before them",
                    before.join(", ")
                ));
            }
        }
        Ok(lines)
    }
}

/// Manages windows until `signals` says to end; `tell` gets one line about each thing of note.
///
/// # Errors
/// When the privilege is missing, an interface is not there, or something is attached already. Everything is undone
/// then too.
pub fn attach(args: &AttachArgs, signals: &Signals, tell: &mut dyn FnMut(&str)) -> Result<(), DrwaError> {
    require_objects("manage receive windows")?;
    args.check()?;
    for line in clean_up()? {
        tell(&line);
    }
    let namespace = Namespace::current()?.id()?;
    if let Some(other) = running()?.into_iter().find(|other| other.record.namespace == namespace) {
        let names: Vec<String> = other.record.attached.into_iter().map(|a| a.interface).collect();
        return Err(DrwaError::AlreadyAttached { process: other.process, interfaces: names.join(", ") });
    }
    let netlink = Netlink::open()?;
    let mut ports =
        args.interfaces.iter().map(|name| Port::load(name, args, &netlink)).collect::<Result<Vec<_>, _>>()?;
    let buffers =
        if args.keep_buffers { Buffers { changed: Vec::new() } } else { Buffers::plan(args.rmem.0)? };
    let options = std::env::args().skip_while(|word| word != "attach").skip(1).collect::<Vec<_>>().join(" ");
    let mut record = Record { namespace, attached: Vec::new(), buffers, options };
    // First written, then done: whatever happens in between can be undone.
    let instance = Recorded::register(KIND, &record)?;
    let result = work(args, &mut ports, &mut record, &instance, &netlink, signals, tell);
    drop(ports);
    for kept in record.undo()? {
        tell(&kept_line(&kept));
    }
    result
}

fn write(instance: &Instance, record: &Record) -> Result<(), DrwaError> {
    Ok(instance.record(&serde_json::to_string_pretty(record).unwrap_or_default())?)
}

fn work(
    args: &AttachArgs,
    ports: &mut [Port],
    record: &mut Record,
    instance: &Instance,
    netlink: &Netlink,
    signals: &Signals,
    tell: &mut dyn FnMut(&str),
) -> Result<(), DrwaError> {
    record.buffers.set()?;
    for (path, old, new) in &record.buffers.changed {
        let plain = |value: &str| value.split_whitespace().collect::<Vec<_>>().join(" ");
        tell(&format!("{path}: '{}', was '{}'", plain(new), plain(old)));
    }
    for port in ports.iter_mut() {
        let attached = port.attach(args, netlink)?;
        tell(&format!("{}: attached ({})", attached.interface, attached.hook));
        record.attached.push(attached);
        write(instance, record)?;
    }
    for port in ports.iter() {
        port.filters_before(netlink)?.iter().for_each(|line| tell(line));
    }
    tell(
        "ready: connections that begin from now on are managed; end with Ctrl-C or `cellerator drwa detach`",
    );
    let mut waiter = Waiter::new(Duration::ZERO)?;
    waiter.add(signals, Interest::Read, 0)?;
    loop {
        waiter.wait(Some(Clock::now() + LOOK))?;
        if signals.take().is_some() {
            return Ok(());
        }
        for (port, attached) in ports.iter_mut().zip(&mut record.attached) {
            let is_at = netlink.index_of(&port.name).ok();
            if is_at == port.at {
                continue;
            }
            (port.at, port.attachments) = (None, None);
            match is_at {
                None => tell(&format!("{} is gone: waiting for it", port.name)),
                Some(_) => {
                    *attached = port.attach(args, netlink)?;
                    tell(&format!("{} is back: attached ({})", port.name, attached.hook));
                }
            }
        }
        write(instance, record)?;
    }
}

/// Ends those attached to `interface`, or all, of this network namespace; the lines say which.
///
/// # Errors
/// When there is none, or it does not end.
pub fn detach(interface: Option<&str>) -> Result<Vec<String>, DrwaError> {
    require_objects("look for what manages receive windows")?;
    let mut lines = clean_up()?;
    let namespace = Namespace::current()?.id()?;
    let is_meant = |name: &str| interface.is_none_or(|wanted| wanted == name);
    for other in running()? {
        let names: Vec<String> = other.record.attached.iter().map(|a| a.interface.clone()).collect();
        if other.record.namespace != namespace || !names.iter().any(|name| is_meant(name)) {
            continue;
        }
        other.end()?;
        lines.push(format!("process {}: detached from {}", other.process, names.join(", ")));
    }
    if lines.is_empty() { Err(DrwaError::NothingAttached) } else { Ok(lines) }
}
