//! [`run_tool`]: `ip` and `nft` in a namespace, for what only comparisons need; [`Rules`] of a packet filter.

use io::Namespace;

use crate::BenchError;

/// Runs `program` in `namespace` with `input`; a failure means that `what` cannot be measured.
pub(crate) fn run_tool(
    namespace: &Namespace,
    program: &str,
    arguments: &[&str],
    input: &str,
    what: &str,
) -> Result<(), BenchError> {
    let missing = |why: String| BenchError::Missing { what: what.to_owned(), why };
    let words = [&[program], arguments].concat();
    let output = namespace.output_of(&words, input).map_err(|error| missing(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().next().unwrap_or("it failed").trim();
    Err(missing(format!("cannot run `{}`: {said}", words.join(" "))))
}

/// Rules of a packet filter in a namespace, as long as this is there.
#[derive(Debug)]
pub(crate) struct Rules {
    namespace: Namespace,
    what: &'static str,
}

impl Rules {
    /// Loads some chains, for `what` is measured by them.
    pub fn load(namespace: &Namespace, what: &'static str, chains: &str) -> Result<Self, BenchError> {
        let rules = Self { namespace: Namespace::open(namespace.name())?, what };
        rules.nft(&["-f", "-"], &format!("table ip cbench {{\n{chains}}}\n"))?;
        Ok(rules)
    }

    fn nft(&self, arguments: &[&str], input: &str) -> Result<(), BenchError> {
        run_tool(&self.namespace, "nft", arguments, input, self.what)
    }
}

impl Drop for Rules {
    fn drop(&mut self) {
        // With the namespace it goes anyway.
        drop(self.nft(&["delete", "table", "ip", "cbench"], ""));
    }
}
