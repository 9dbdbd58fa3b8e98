//! [`Server`]: answers request lines with content, from threads whose sockets live on the server.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;

use scenario::Family;

use crate::kernel::content::Content;
use crate::kernel::testbed::{Testbed, patient};

/// A request line: `LEN SEED close`, or `keep` for a connection that stays open for the next request.
pub fn request(content: Content, stays: bool) -> String {
    format!("{} {} {}\n", content.len, content.seed, if stays { "keep" } else { "close" })
}

pub struct Server {
    pub address: SocketAddr,
    ends: mpsc::Receiver<(SocketAddr, io::Result<()>)>,
}

impl Server {
    /// Serves until the process ends.
    pub fn start(bed: &Testbed, family: Family) -> Self {
        let listener = bed.listen(family);
        let address = listener.local_addr().unwrap();
        let (send, ends) = mpsc::channel();
        std::thread::spawn(move || accept_all(&listener, &send));
        Self { address, ends }
    }

    /// How the connections ended that `count` clients made: as the server's side saw it.
    pub fn ends(&self, count: usize) -> Vec<(SocketAddr, io::Result<()>)> {
        (0..count).map(|_| self.ends.recv_timeout(crate::kernel::testbed::PATIENCE).unwrap()).collect()
    }
}

fn accept_all(listener: &TcpListener, ends: &mpsc::Sender<(SocketAddr, io::Result<()>)>) {
    while let Ok((stream, peer)) = listener.accept() {
        let ends = ends.clone();
        std::thread::spawn(move || ends.send((peer, serve(patient(stream)))));
    }
}

/// Answers requests; then waits for the client's end, which must be a clean one.
fn serve(mut stream: TcpStream) -> io::Result<()> {
    let mut requests = BufReader::new(stream.try_clone()?);
    loop {
        let mut line = String::new();
        if requests.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let mut words = line.split_ascii_whitespace();
        let mut number = || words.next().and_then(|word| word.parse().ok()).ok_or(io::ErrorKind::InvalidData);
        let content = Content { len: number()?, seed: number()? };
        content.write_to(&mut stream)?;
        stream.flush()?;
        if words.next() == Some("close") {
            stream.shutdown(Shutdown::Write)?;
            return match requests.read_to_end(&mut Vec::new())? {
                0 => Ok(()),
                _ => Err(io::ErrorKind::InvalidData.into()),
            };
        }
    }
}
