//! [`IoError`]: what failed, on what, and what to do.

use std::io;

/// Reason why a request to the operating system failed.
///
/// The message is one line: what was tried, on what, what the system said, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IoError {
    /// The caller lacks a privilege.
    #[error("cannot {what}: needs {capability}; run as root")]
    NotPrivileged {
        /// Action that was tried, beginning with a verb.
        what: String,
        /// The capability that is missing, as `capabilities(7)` writes it.
        capability: &'static str,
    },
    /// The kernel or the machine lacks something.
    #[error("{what} is missing: {remedy}")]
    Missing {
        /// Feature that is missing.
        what: String,
        /// Remedy for it.
        remedy: String,
    },
    /// A process does not end.
    #[error("process {0} did not end within 10 s of SIGTERM: look at it, or kill it; nothing breaks")]
    DoesNotEnd(u32),
    /// This program was built without what loads compiled BPF programs.
    #[error(
        "cannot {what}: this program was built without BPF: build it with `make build`, or with clang, libelf-dev and \
         zlib1g-dev by `cargo build --release --features bpf`"
    )]
    WithoutObjects {
        /// Action that was tried, beginning with a verb.
        what: String,
    },
    /// There is no network interface of that name in this namespace.
    #[error("no interface '{name}' here; `ip link` lists those that exist")]
    NoInterface {
        /// The name asked for.
        name: String,
    },
    /// There is no network namespace of that name.
    #[error("no network namespace '{name}'; `ip netns list` lists those that exist")]
    NoNamespace {
        /// The name asked for.
        name: String,
    },
    /// An argument cannot be right.
    #[error("{what}: {why}")]
    Invalid {
        /// The argument, as given.
        what: String,
        /// Reason why it is refused, and what is allowed.
        why: String,
    },
    /// The kernel refused a program.
    #[error("cannot {what}: {why}")]
    Refused {
        /// Action that was tried, beginning with a verb, with the programs' name.
        what: String,
        /// The reason, in one line.
        why: String,
        /// All that was said about it: the verifier's log.
        log: String,
    },
    /// The system refused.
    #[error("cannot {what}: {source}")]
    System {
        /// Action that was tried, beginning with a verb, with the object's name.
        what: String,
        /// Error of the system.
        source: io::Error,
    },
}

impl IoError {
    /// Error of the system at an attempt to do `what`; lack of privilege gets its own variant.
    pub fn system(what: impl Into<String>, source: io::Error) -> Self {
        let what = what.into();
        match source.raw_os_error() {
            Some(libc::EPERM) => Self::NotPrivileged { what, capability: "CAP_NET_ADMIN and CAP_SYS_ADMIN" },
            _ => Self::System { what, source },
        }
    }

    /// The last operating-system error of this thread, for an attempt to do `what`.
    pub(crate) fn last(what: impl Into<String>) -> Self {
        Self::system(what, io::Error::last_os_error())
    }

    /// The verifier's log, where there is one.
    #[must_use]
    pub fn log(&self) -> Option<&str> {
        match self {
            Self::Refused { log, .. } if !log.is_empty() => Some(log),
            _ => None,
        }
    }

    /// The system's error number, where there is one.
    #[must_use]
    pub fn raw_os_error(&self) -> Option<i32> {
        match self {
            Self::System { source, .. } => source.raw_os_error(),
            Self::NotPrivileged { .. } => Some(libc::EPERM),
            _ => None,
        }
    }

    /// True when the thing to be made is already there.
    #[must_use]
    pub fn is_already_there(&self) -> bool {
        self.raw_os_error() == Some(libc::EEXIST)
    }

    /// True when the thing to be changed or removed is not there (any more).
    #[must_use]
    pub fn is_not_there(&self) -> bool {
        matches!(self, Self::NoInterface { .. } | Self::NoNamespace { .. })
            || matches!(
                self.raw_os_error(),
                Some(libc::ENOENT | libc::ESRCH | libc::ENODEV | libc::EADDRNOTAVAIL)
            )
    }

    /// True when the same request may succeed in a moment: a signal came in between, memory or a
    /// buffer was short, somebody else was at it, or no answer came in time.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(
            self.raw_os_error(),
            Some(libc::EINTR | libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::ENOMEM | libc::ETIMEDOUT)
        )
    }

    /// True when a TUN device is gone or down: `EBADFD`, `EIO`, `ENODEV`, `ENETDOWN`.
    #[must_use]
    pub fn is_device_gone(&self) -> bool {
        matches!(
            self.raw_os_error(),
            Some(libc::EBADFD | libc::EIO | libc::ENODEV | libc::ENETDOWN | libc::ENXIO)
        )
    }
}

/// Adds what was tried to a system error.
pub(crate) trait Context<T> {
    /// `what` begins with a verb and names the object.
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, IoError>;
}

impl<T> Context<T> for io::Result<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, IoError> {
        self.map_err(|source| IoError::system(what(), source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_pass_is_told_from_what_stays() {
        let of = |number| IoError::system("list rules", io::Error::from_raw_os_error(number));
        let may_pass = [libc::EINTR, libc::EAGAIN, libc::EBUSY, libc::ENOBUFS, libc::ENOMEM, libc::ETIMEDOUT];
        assert!(may_pass.into_iter().all(|number| of(number).is_transient()));
        let stays = [libc::EPERM, libc::ENODEV, libc::ENOENT, libc::EINVAL, libc::EEXIST];
        assert!(!stays.into_iter().any(|number| of(number).is_transient()));
        assert!(!IoError::NoInterface { name: "eth9".to_owned() }.is_transient());
    }
}
