//! Generic netlink: families by name, their commands and their events.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_GENERIC};

use super::attributes::{Attributes, Requests, attributes, find, messages, u16_of, u32_of};
use crate::IoError;
use crate::error::Context;

const GENL_ID_CTRL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const CTRL_ATTR_MCAST_GROUPS: u16 = 7;
const CTRL_ATTR_MCAST_GRP_NAME: u16 = 1;
const CTRL_ATTR_MCAST_GRP_ID: u16 = 2;

/// A family of generic netlink in one namespace.
#[derive(Debug)]
pub(crate) struct GenericFamily {
    requests: Requests,
    id: u16,
    version: u8,
    groups: Vec<(String, u32)>,
}

/// Command and body of something the kernel said.
pub(crate) type Said = (u8, Vec<u8>);

impl GenericFamily {
    /// The family called `name`; `None` when this kernel has none.
    pub fn open(name: &str, version: u8) -> Result<Option<Self>, IoError> {
        let what = || format!("ask for the generic netlink family '{name}'");
        let requests = Requests::open(NETLINK_GENERIC).doing(what)?;
        let body = message(CTRL_CMD_GETFAMILY, 1, &Attributes::default().text(CTRL_ATTR_FAMILY_NAME, name));
        let answers = match requests.get(GENL_ID_CTRL, &body) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(None),
            answers => answers.doing(what)?,
        };
        let Some(answer) = answers.first() else { return Ok(None) };
        let all = attributes(answer.get(4..).unwrap_or_default());
        let Some(id) = find(&all, CTRL_ATTR_FAMILY_ID).and_then(u16_of) else { return Ok(None) };
        let groups = attributes(find(&all, CTRL_ATTR_MCAST_GROUPS).unwrap_or_default());
        let group = |bytes: &[u8]| {
            let group = attributes(bytes);
            let name = String::from_utf8_lossy(find(&group, CTRL_ATTR_MCAST_GRP_NAME)?).into_owned();
            Some((name.trim_end_matches('\0').to_owned(), u32_of(find(&group, CTRL_ATTR_MCAST_GRP_ID)?)?))
        };
        let groups = groups.into_iter().filter_map(|(_, bytes)| group(bytes)).collect();
        Ok(Some(Self { requests, id, version, groups }))
    }

    pub fn change(&self, command: u8, attributes: &Attributes) -> io::Result<()> {
        self.requests.change(self.id, &message(command, self.version, attributes))
    }

    pub fn get(&self, command: u8, attributes: &Attributes) -> io::Result<Vec<Vec<u8>>> {
        Ok(without_headers(self.requests.get(self.id, &message(command, self.version, attributes))?))
    }

    pub fn dump(&self, command: u8, attributes: &Attributes) -> io::Result<Vec<Vec<u8>>> {
        Ok(without_headers(self.requests.dump(self.id, &message(command, self.version, attributes))?))
    }

    /// Hears of what the group called `name` is told.
    pub fn listen(&self, name: &str) -> Result<GenericEvents, IoError> {
        let what = || format!("listen to the netlink group '{name}'");
        let number = self.groups.iter().find(|(group, _)| group == name).map(|(_, number)| *number);
        let number = number.ok_or_else(|| io::Error::from(ErrorKind::NotFound)).doing(what)?;
        let connect = || -> io::Result<Socket> {
            let mut socket = Socket::new(NETLINK_GENERIC)?;
            socket.set_non_blocking(true)?;
            socket.bind(&SocketAddr::new(0, 0))?;
            socket.add_membership(number)?;
            Ok(socket)
        };
        Ok(GenericEvents { socket: connect().doing(what)?, id: self.id })
    }
}

fn message(command: u8, version: u8, attributes: &Attributes) -> Vec<u8> {
    [&[command, version, 0, 0], attributes.0.as_slice()].concat()
}

fn without_headers(answers: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    answers.into_iter().map(|answer| answer.get(4..).unwrap_or_default().to_vec()).collect()
}

/// A socket that hears events of a family.
#[derive(Debug)]
pub(crate) struct GenericEvents {
    socket: Socket,
    id: u16,
}

impl GenericEvents {
    /// Messages since the last call; true when something was lost for want of room.
    pub fn take(&self) -> (Vec<Said>, bool) {
        let (mut all, mut is_incomplete) = (Vec::new(), false);
        let mut buffer = Vec::with_capacity(64 * 1024);
        loop {
            buffer.clear();
            match self.socket.recv(&mut buffer, 0) {
                Ok(_) => all.extend(messages(&buffer).into_iter().filter_map(|(kind, _, _, body)| {
                    let (command, rest) = (*body.first()?, body.get(4..)?);
                    (kind == self.id).then(|| (command, rest.to_vec()))
                })),
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => is_incomplete = true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return (all, is_incomplete),
            }
        }
    }
}

impl AsFd for GenericEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
