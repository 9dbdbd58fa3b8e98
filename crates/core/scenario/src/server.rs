//! The server section.

use serde::{Deserialize, Serialize};
use units::Bytes;

use crate::choice::CongestionControl;
use crate::merge::{checked, layered};
use crate::quantity::Quantity;

/// Three rising numbers of bytes, as the kernel wants them.
pub(crate) fn check_memory(key: &str, text: Option<&str>) -> Result<(), String> {
    let Some(text) = text else { return Ok(()) };
    let numbers: Result<Vec<u32>, _> = text.split_whitespace().map(str::parse).collect();
    match numbers {
        Ok(numbers) if numbers.len() == 3 && numbers.is_sorted() => Ok(()),
        _ => Err(format!(
            "`{text}` is not a {key}: write three rising numbers of bytes like \"4096 131072 6291456\""
        )),
    }
}

/// The same with single spaces.
pub(crate) fn plain_memory(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

layered! {
    /// The origin server.
    checked pub struct Server {
        /// Congestion control. Default: `cubic`.
        pub congestion_control: CongestionControl,
        /// Window at which slow start of `reno` ends first. Default: at the first loss.
        pub initial_ssthresh: Quantity<Bytes>,
        /// `net.ipv4.tcp_wmem` of the server, three numbers of bytes. Default: the kernel's.
        pub tcp_wmem: String,
    }
}

impl Server {
    /// Checks what serde cannot see: three numbers.
    fn check(&self) -> Result<(), String> {
        check_memory("tcp_wmem", self.tcp_wmem.as_deref())
    }

    /// This section where it says something, `base` elsewhere.
    #[must_use]
    pub fn over(&self, base: &Self) -> Self {
        self.layered_over(base)
    }

    /// The first key that only the simulator has.
    #[must_use]
    pub fn simulated_only(&self) -> Option<&'static str> {
        self.initial_ssthresh.map(|_| "initial_ssthresh")
    }

    /// The value for `net.ipv4.tcp_wmem`, if the scenario says one.
    #[must_use]
    pub fn wmem(&self) -> Option<String> {
        self.tcp_wmem.as_deref().map(plain_memory)
    }

    /// Bytes a sender keeps at most, unacknowledged and unsent: the last of the three numbers.
    #[must_use]
    pub fn send_buffer(&self) -> Option<Bytes> {
        let largest = self.tcp_wmem.as_deref()?.split_whitespace().next_back()?;
        largest.parse().ok().map(Bytes::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_send_buffer_is_the_last_of_three_numbers() {
        let server = Server { tcp_wmem: Some("4096  16384 33554432".to_owned()), ..Server::default() };
        assert_eq!(server.wmem().as_deref(), Some("4096 16384 33554432"));
        assert_eq!(server.send_buffer(), Some(Bytes::new(33_554_432)));
        assert_eq!(Server::default().send_buffer(), None);
        for wrong in ["16384", "3 2 1", "a b c"] {
            let server = Server { tcp_wmem: Some(wrong.to_owned()), ..Server::default() };
            assert!(server.check().unwrap_err().contains("tcp_wmem"), "{wrong}");
        }
    }
}
