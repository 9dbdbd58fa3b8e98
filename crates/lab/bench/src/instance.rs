//! [`register`]: a benchmark's record, so that the next one removes what a killed one left behind.

use std::path::Path;

use io::{INSTANCE_DIRECTORY, Instance, Leftover, Namespace};

use crate::BenchError;

const KIND: &str = "bench";

/// Takes over after cleaning up, and writes down the names of the namespaces about to be made.
pub(crate) fn register(namespaces: &[String]) -> Result<Instance, BenchError> {
    register_below(Path::new(INSTANCE_DIRECTORY), namespaces)
}

fn register_below(base: &Path, namespaces: &[String]) -> Result<Instance, BenchError> {
    clean(base)?;
    let instance = Instance::register(base, KIND)?;
    // Written before anything is made, so that a kill at any later moment leaves a trail.
    instance.record(&namespaces.join("\n"))?;
    Ok(instance)
}

/// Removes what killed benchmarks left behind.
fn clean(base: &Path) -> Result<(), BenchError> {
    for leftover in Leftover::find(base, KIND)? {
        for name in leftover.record().unwrap_or_default().lines() {
            match Namespace::remove(name) {
                Err(e) if !e.is_not_there() => return Err(e.into()),
                _ => {}
            }
        }
        leftover.forget()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_start_removes_what_a_killed_one_left() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path();
        let name = format!("ct-bench-{}", std::process::id());
        // As after kill -9: a record, a namespace, and nobody who holds the lock.
        let directory = base.join("bench-999999999");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("owner"), "999999999:1").unwrap();
        std::fs::write(directory.join("record"), format!("{name}\n{name}-never-made")).unwrap();
        Namespace::create(&name).unwrap_or_else(|e| panic!("this test needs root: {e}"));
        let instance = register_below(base, &["one".to_owned(), "two".to_owned()]).unwrap();
        assert!(Namespace::open(&name).is_err());
        assert!(!directory.exists());
        assert_eq!(std::fs::read_to_string(instance.path().join("record")).unwrap(), "one\ntwo");
    }
}
