//! [`Origin`]: nginx in the server's namespace, serving one file of random bytes.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use io::{Clock, Namespace, SpawnOptions};
use rand::Rng;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use sha2::{Digest, Sha256};
use units::{Bytes, Duration};

use crate::LabError;
use crate::error::Context;

/// Longest time that nginx may take to listen.
const START_LIMIT: Duration = Duration::from_secs(10);

/// Name of the file served.
pub const FILE: &str = "file.bin";

/// A file of random bytes and its hash.
#[derive(Clone, Debug)]
pub struct Content {
    /// Path of the file.
    pub path: PathBuf,
    /// Its size.
    pub size: Bytes,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
}

impl Content {
    /// Writes `size` random bytes drawn from `seed` to [`FILE`] in `directory`.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn write(directory: &Path, size: Bytes, seed: u64) -> Result<Self, LabError> {
        let path = directory.join(FILE);
        let failed = || format!("write {}", path.display());
        let mut file = fs::File::create(&path).doing(failed)?;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut hash = Sha256::new();
        let mut left = size.get();
        let mut block = vec![0; 1 << 16];
        while left > 0 {
            let len = usize::try_from(left).unwrap_or(usize::MAX).min(block.len());
            random.fill_bytes(&mut block[..len]);
            hash.update(&block[..len]);
            file.write_all(&block[..len]).doing(failed)?;
            left -= len as u64;
        }
        Ok(Self { path, size, sha256: hexadecimal(&hash.finalize()) })
    }
}

/// Bytes as lower-case hexadecimal digits.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing into a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// SHA-256 of what `reader` gives, in hexadecimal.
pub fn sha256_of(mut reader: impl Read) -> std::io::Result<String> {
    let mut hash = Sha256::new();
    let mut block = vec![0; 1 << 16];
    loop {
        match reader.read(&mut block)? {
            0 => return Ok(hexadecimal(&hash.finalize())),
            len => hash.update(&block[..len]),
        }
    }
}

/// A running nginx; killed when dropped.
#[derive(Debug)]
pub struct Origin {
    child: Child,
    uploads: PathBuf,
}

impl Origin {
    /// Starts nginx in `server` with its files in `directory`, where [`Content`] stands; ready when
    /// it returns.
    ///
    /// # Errors
    /// When nginx is missing or does not start; its own message is passed on.
    pub fn start(server: &Namespace, directory: &Path) -> Result<Self, LabError> {
        let program = io::features::find_program("nginx").ok_or_else(|| LabError::Program {
            program: "nginx".to_owned(),
            message: "not installed; on Debian: apt-get install nginx-light".to_owned(),
        })?;
        let uploads = directory.join("uploads");
        fs::create_dir_all(&uploads).doing(|| format!("create {}", uploads.display()))?;
        let config = directory.join("nginx.conf");
        fs::write(&config, configuration(directory)).doing(|| format!("write {}", config.display()))?;
        let log = directory.join("nginx.log");
        let mut command = Command::new(program);
        command.arg("-e").arg(&log).arg("-p").arg(directory).arg("-c").arg(&config);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut origin = Self { child: server.spawn(command, SpawnOptions::KILLED_WITH_PARENT)?, uploads };
        origin.wait_until_ready(server, &log)?;
        Ok(origin)
    }

    fn wait_until_ready(&mut self, server: &Namespace, log: &Path) -> Result<(), LabError> {
        let deadline = Clock::now() + START_LIMIT;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 80));
        let failed = |what: String| {
            let said = fs::read_to_string(log).unwrap_or_default();
            Err(LabError::Program {
                program: "nginx".to_owned(),
                message: format!("{what}: {}", said.trim()),
            })
        };
        loop {
            if server.run(|| TcpStream::connect(address).is_ok())? {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return failed(format!("ended at once, {status}"));
            }
            if Clock::now() > deadline {
                return failed(format!("did not listen within {START_LIMIT}"));
            }
            crate::pause::pause(Duration::from_millis(2))?;
        }
    }

    /// SHA-256 of every body uploaded so far, in no particular order.
    ///
    /// # Errors
    /// When a body cannot be read.
    pub fn uploaded(&self) -> Result<Vec<String>, LabError> {
        let failed = || format!("read {}", self.uploads.display());
        let mut hashes = Vec::new();
        for entry in fs::read_dir(&self.uploads).doing(failed)? {
            let file = fs::File::open(entry.doing(failed)?.path()).doing(failed)?;
            hashes.push(sha256_of(file).doing(failed)?);
        }
        Ok(hashes)
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        // Already ended is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.uploads);
    }
}

/// One process in the foreground, everything it writes below `directory`. An upload's body is kept
/// in a file by passing the request, without its body, to a second server that only says yes.
fn configuration(directory: &Path) -> String {
    let directory = directory.display();
    format!(
        "daemon off;\nmaster_process off;\npid {directory}/nginx.pid;\nuser root;\n\
         events {{ worker_connections 512; }}\n\
         http {{\n  access_log off;\n  sendfile on;\n  default_type application/octet-stream;\n  \
         keepalive_timeout 1h;\n  client_max_body_size 0;\n  client_body_temp_path {directory}/uploads;\n  \
         proxy_temp_path {directory}/proxy;\n  client_body_timeout 1h;\n  send_timeout 1h;\n  \
         server {{\n    listen 80;\n    listen [::]:80;\n    listen 8080;\n    listen [::]:8080;\n    root {directory};\n    \
         location = /{FILE} {{ }}\n    location /up/ {{\n      client_body_in_file_only on;\n      \
         proxy_pass_request_body off;\n      proxy_set_header Content-Length \"\";\n      proxy_pass \
         http://127.0.0.1:8079;\n    }}\n    location / {{ return 404; }}\n  }}\n  server {{ listen \
         127.0.0.1:8079; return 200; }}\n}}\n"
    )
}
