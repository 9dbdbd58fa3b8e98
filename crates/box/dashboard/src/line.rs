//! [`Line`]: the way to the process that asks accelerators, a question and an answer a line.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use top::{Ask, Reply, Source, TopError};

/// Longest answer of the gate, bytes.
const ANSWER_LEN_MAX: u64 = 8 << 20;

/// The way to the gate.
#[derive(Clone)]
pub(crate) struct Line(Rc<RefCell<BufReader<UnixStream>>>);

impl Line {
    /// By this stream.
    pub fn new(gate: UnixStream) -> Self {
        Self(Rc::new(RefCell::new(BufReader::new(gate))))
    }
}

impl Source for Line {
    fn ask(&mut self, question: &Ask) -> Result<Reply, TopError> {
        let failed = |error| TopError::System { doing: "ask the process beside this one".to_owned(), error };
        let mut stream = self.0.borrow_mut();
        let mut ask = || {
            let mut text = serde_json::to_vec(question)?;
            text.push(b'\n');
            stream.get_mut().write_all(&text)?;
            let mut answer = Vec::new();
            (&mut *stream).take(ANSWER_LEN_MAX).read_until(b'\n', &mut answer)?;
            if !answer.ends_with(b"\n") {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            Ok(serde_json::from_slice(&answer)?)
        };
        ask().map_err(failed)
    }
}
