//! The kernel's version, and what it was built with.

use std::fs;
use std::io::Read;
use std::path::PathBuf;

use flate2::read::GzDecoder;

/// File with the options of a kernel that has `CONFIG_IKCONFIG_PROC`.
const OWN: &str = "/proc/config.gz";

/// Longest text that is looked at, bytes: those of distributions have 300,000.
const TEXT_LEN_MAX: u64 = 4 << 20;

/// Of a release such as `6.1.0-28-amd64`: 6 and 1.
pub(super) fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Form in which a part of the kernel was built.
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
    /// Reads the options from the kernel, or from the file that Debian and others install beside it.
    pub fn read(release: &str) -> Self {
        let places = [
            PathBuf::from(format!("/boot/config-{release}")),
            PathBuf::from(format!("/lib/modules/{release}/config")),
        ];
        let own = fs::File::open(OWN).ok().and_then(unpack);
        Self(own.or_else(|| places.iter().find_map(|place| fs::read_to_string(place).ok())))
    }

    #[cfg(test)]
    pub fn parse(text: &str) -> Self {
        Self(Some(text.to_owned()))
    }

    /// Setting of the option `name`, without `CONFIG_`; none where that is not known.
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

/// The text that `packed` has in the format of gzip, if it has any.
fn unpack(packed: impl Read) -> Option<String> {
    let mut text = String::new();
    GzDecoder::new(packed).take(TEXT_LEN_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_options_are_packed() {
        use std::io::Write;

        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packed.write_all(b"CONFIG_TUN=y\n").unwrap();
        let packed = packed.finish().unwrap();
        assert_eq!(BuildOptions(unpack(&packed[..])).get("TUN"), Some(Built::In));
        assert_eq!(unpack(&packed[..packed.len() / 2]), None, "cut off");
        assert_eq!(unpack(&b"no gzip"[..]), None);
    }

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
