//! The kernel's version, and what it was built with.

use std::fs;
use std::path::PathBuf;

/// Of a release such as `6.1.0-28-amd64`: 6 and 1.
pub(super) fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// How a part of the kernel was built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Built {
    /// Into the kernel.
    In,
    /// As a module.
    AsModule,
    /// Not at all.
    Not,
}

/// The options that the kernel was built with, where it or its package tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BuildOptions(Option<String>);

impl BuildOptions {
    /// What Debian and others install beside the kernel.
    pub fn read(release: &str) -> Self {
        let places = [
            PathBuf::from(format!("/boot/config-{release}")),
            PathBuf::from(format!("/lib/modules/{release}/config")),
        ];
        Self(places.iter().find_map(|place| fs::read_to_string(place).ok()))
    }

    #[cfg(test)]
    pub fn parse(text: &str) -> Self {
        Self(Some(text.to_owned()))
    }

    /// How the option `name` was set, without `CONFIG_`; none where that is not known.
    pub fn get(&self, name: &str) -> Option<Built> {
        let text = self.0.as_ref()?;
        let set = text.lines().find_map(|line| {
            line.strip_prefix("CONFIG_")?.strip_prefix(name)?.strip_prefix('=').map(str::trim)
        });
        Some(match set {
            Some("y") => Built::In,
            Some("m") => Built::AsModule,
            _ => Built::Not,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_have_versions() {
        assert_eq!(version_of("6.1.0-28-amd64"), Some((6, 1)));
        assert_eq!(version_of("5.15-rc1"), Some((5, 15)));
        assert_eq!(version_of("six"), None);
    }

    #[test]
    fn options_are_in_the_kernel_modules_or_not_there() {
        let options =
            BuildOptions::parse("CONFIG_TUN=m\nCONFIG_NET_XGRESS=y\n# CONFIG_XDP_SOCKETS is not set\n");
        assert_eq!(options.get("TUN"), Some(Built::AsModule));
        assert_eq!(options.get("NET_XGRESS"), Some(Built::In));
        assert_eq!(options.get("NET"), Some(Built::Not), "no part of another name");
        assert_eq!(options.get("XDP_SOCKETS"), Some(Built::Not));
        assert_eq!(BuildOptions::default().get("TUN"), None);
    }
}
