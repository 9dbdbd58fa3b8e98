//! [`serve`]: HTTP with bounds, from a process that can do nothing but answer and ask its reader.
//!
//! ```text
//!   connection ─ is there room? ─ whole in time? ─▶ a site's answer ─ one question at a time ─▶ the reader
//!                     no: closed       no: closed
//! ```

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{sleep, timeout};

use crate::TelemetryError;

/// Connections at a time; another one is closed at once.
const CONNECTIONS_MAX: usize = 32;

/// How long a client may take to send the head of a request, and how long its connection may last: who is still
/// there connects again.
const HEAD_TIME_MAX: Duration = Duration::from_secs(5);
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(600);

/// Longest head of a request, bytes.
const HEAD_LEN_MAX: usize = 16 * 1024;

/// Longest answer of the reader, bytes: a snapshot has some kilobytes.
const ANSWER_LEN_MAX: u32 = 16 << 20;

/// After a connection could not be taken in, it waits so long: as a rule no descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Told how serving ended; dropped where that was well.
pub(crate) type End = oneshot::Sender<Result<(), TelemetryError>>;

/// A connection's place among those that there may be, held by whoever works for it.
pub(crate) type Place = Arc<OwnedSemaphorePermit>;

/// What is served.
pub(crate) trait Site: Clone + Send + 'static {
    /// Of its answers.
    type Body: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static;

    /// Answers one request of the connection at `place`.
    fn answer(
        self,
        request: Request<Incoming>,
        place: Place,
    ) -> impl Future<Output = Response<Self::Body>> + Send;
}

/// The other process, which may use the control sockets.
pub(crate) struct Reader(UnixStream);

impl Reader {
    /// One answer of JSON.
    ///
    /// # Errors
    /// It has gone.
    pub(crate) async fn ask(&mut self) -> std::io::Result<Vec<u8>> {
        self.0.write_all(&[1]).await?;
        let len = self.0.read_u32().await?.min(ANSWER_LEN_MAX);
        let mut json = vec![0; len as usize];
        self.0.read_exact(&mut json).await?;
        Ok(json)
    }
}

/// Serves what `site` makes of the reader at `listen`, until it says that this has ended. `ready` is told where.
///
/// # Errors
/// The address cannot be listened at, or how it ended.
pub(crate) fn serve<S: Site>(
    listen: SocketAddr,
    reader: StdUnixStream,
    ready: impl FnOnce(SocketAddr),
    site: impl FnOnce(Reader, End) -> S,
) -> Result<(), TelemetryError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(TelemetryError::doing("start the server"))?;
    runtime.block_on(async {
        let doing = || TelemetryError::doing(format!("listen at {listen}"));
        let listener = TcpListener::bind(listen).await.map_err(doing())?;
        reader.set_nonblocking(true).map_err(doing())?;
        let reader = Reader(UnixStream::from_std(reader).map_err(doing())?);
        ready(listener.local_addr().map_err(doing())?);
        let (end, ended) = oneshot::channel();
        let accepting = tokio::spawn(accept(listener, site(reader, end)));
        let result = ended.await.unwrap_or(Ok(()));
        accepting.abort();
        result
    })
}

async fn accept<S: Site>(listener: TcpListener, site: S) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Ok(place) = Arc::clone(&room).try_acquire_owned() else { continue };
        let conversation = converse(stream, site.clone(), Arc::new(place));
        // Who is too slow, or says what is no HTTP, has lost nothing but its connection.
        tokio::spawn(async move { drop(timeout(CONNECTION_TIME_MAX, conversation).await) });
    }
}

async fn converse<S: Site>(stream: TcpStream, site: S, place: Place) -> Result<(), hyper::Error> {
    let service = service_fn(move |request| {
        let (site, place) = (site.clone(), Arc::clone(&place));
        async move { Ok::<_, Infallible>(site.answer(request, place).await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_buf_size(HEAD_LEN_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await
}
