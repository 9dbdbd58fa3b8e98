//! [`User`]: whom the server runs as.

use std::os::unix::fs::MetadataExt;

use crate::TelemetryError;

/// A user and its group, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// The user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

impl User {
    /// The user of a name, or of a number, on this machine.
    ///
    /// # Errors
    /// There is no such user, or it is root.
    pub fn find(name: &str) -> Result<Self, TelemetryError> {
        let path = "/etc/passwd";
        let text = std::fs::read_to_string(path).map_err(TelemetryError::doing(format!("read {path}")))?;
        let no = |what: &str| TelemetryError::Setting(format!("--user {name}: {what}"));
        let user = Self::of_passwd(&text, name).ok_or_else(|| no("this machine has no such user"))?;
        if user.uid == 0 || user.gid == 0 {
            return Err(no("it must not have root's rights"));
        }
        Ok(user)
    }

    fn of_passwd(text: &str, wanted: &str) -> Option<Self> {
        let line = text
            .lines()
            .map(|line| line.split(':').collect::<Vec<_>>())
            .find(|fields| fields.len() >= 4 && (fields[0] == wanted || fields[2] == wanted))?;
        Some(Self { uid: line[2].parse().ok()?, gid: line[3].parse().ok()? })
    }
}

/// True for a process of root's.
#[must_use]
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_number_and_root_is_none() {
        let text =
            "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n:\nodd:x\n";
        let nobody = User { uid: 65_534, gid: 65_534 };
        assert_eq!(User::of_passwd(text, "nobody"), Some(nobody));
        assert_eq!(User::of_passwd(text, "65534"), Some(nobody));
        assert_eq!(User::of_passwd(text, "x"), None);
        assert_eq!(User::of_passwd(text, "odd"), None);
        assert!(User::find("root").unwrap_err().to_string().contains("must not have root's rights"));
        assert!(User::find("no such user").unwrap_err().to_string().contains("no such user"));
    }
}
