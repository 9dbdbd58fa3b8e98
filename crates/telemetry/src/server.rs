//! [`serve`]: the metrics over HTTP, from a process that can do nothing else.
//!
//! ```text
//!   connection ─ is there room? ─ whole in time? ─ GET /metrics ─▶ one question at a time ─▶ the reader
//!                     no: closed       no: closed                  who comes meanwhile waits for the same answer
//! ```

use std::convert::Infallible;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, sleep, timeout};

use crate::gather::Answered;
use crate::{TelemetryError, metrics};

/// Connections at a time; another one is closed at once.
const CONNECTIONS_MAX: usize = 32;

/// How long a client may take to send the head of a request, and how long its connection may last.
const HEAD_TIME_MAX: Duration = Duration::from_secs(5);
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(600);

/// Longest head of a request, bytes.
const HEAD_LEN_MAX: usize = 16 * 1024;

/// Longest answer of the reader, bytes: a snapshot has some kilobytes.
const ANSWER_LEN_MAX: u32 = 16 << 20;

/// A page is shown again within this time.
const FRESH_FOR: Duration = Duration::from_millis(500);

/// After a connection could not be taken in, it waits so long: as a rule no descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Serves the metrics that `reader` gives at `listen`, until the reader has gone. `ready` is told where.
///
/// # Errors
/// The address cannot be listened at, or the reader speaks otherwise.
pub fn serve(
    listen: SocketAddr,
    reader: StdUnixStream,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), TelemetryError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(TelemetryError::doing("start the server"))?;
    runtime.block_on(async {
        let doing = || TelemetryError::doing(format!("listen at {listen}"));
        let listener = TcpListener::bind(listen).await.map_err(doing())?;
        reader.set_nonblocking(true).map_err(doing())?;
        let reader = UnixStream::from_std(reader).map_err(doing())?;
        ready(listener.local_addr().map_err(doing())?);
        let (fail, failed) = oneshot::channel();
        let pages = Arc::new(Pages { source: Mutex::new(Source { reader, last: None, fail: Some(fail) }) });
        let accepting = tokio::spawn(accept(listener, pages));
        let end = failed.await.unwrap_or(Ok(()));
        accepting.abort();
        end
    })
}

async fn accept(listener: TcpListener, pages: Arc<Pages>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Ok(place) = Arc::clone(&room).try_acquire_owned() else { continue };
        let visit = Visit { pages: Arc::clone(&pages), place: Arc::new(place) };
        // Who is too slow, or says what is no HTTP, has lost nothing but its connection.
        tokio::spawn(async move { drop(timeout(CONNECTION_TIME_MAX, converse(stream, visit)).await) });
    }
}

/// A connection, and its place among those that there may be.
#[derive(Clone)]
struct Visit {
    pages: Arc<Pages>,
    place: Arc<OwnedSemaphorePermit>,
}

async fn converse(stream: TcpStream, visit: Visit) -> Result<(), hyper::Error> {
    let service = service_fn(move |request| {
        let visit = visit.clone();
        async move { Ok::<_, Infallible>(visit.answer(&request).await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_buf_size(HEAD_LEN_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

/// What can be asked for.
struct Pages {
    source: Mutex<Source>,
}

/// Where the metrics come from: one question at a time.
struct Source {
    reader: UnixStream,
    /// The page asked for last, and when that was.
    last: Option<(Instant, Arc<Page>)>,
    /// Told when the reader has gone, or is none.
    fail: Option<oneshot::Sender<Result<(), TelemetryError>>>,
}

/// The metrics in both forms.
struct Page {
    open_metrics: Bytes,
    text: Bytes,
}

impl Visit {
    async fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut refused = plain(StatusCode::METHOD_NOT_ALLOWED, "GET, or HEAD\n");
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refused;
        }
        match request.uri().path() {
            "/metrics" => {}
            "/" => return plain(StatusCode::OK, "cellerator: the metrics are at /metrics\n"),
            _ => return plain(StatusCode::NOT_FOUND, "there is only /metrics\n"),
        }
        // A task of its own, which keeps this connection's place: a client that goes away while the reader
        // answers must not leave half of that answer behind, nor make room for another one.
        let own = self.clone();
        let page = tokio::spawn(async move {
            let page = own.pages.page().await;
            drop(own.place);
            page
        });
        let Some(page) = page.await.ok().flatten() else {
            return plain(StatusCode::SERVICE_UNAVAILABLE, "the metrics cannot be read\n");
        };
        let accepts = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let (form, body) = if accepts.contains("application/openmetrics-text") {
            (OPEN_METRICS, page.open_metrics.clone())
        } else {
            (TEXT_FORMAT, page.text.clone())
        };
        let mut response = Response::new(Full::new(body));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(form));
        response
    }
}

impl Pages {
    /// The metrics, asked for unless that was just done.
    async fn page(&self) -> Option<Arc<Page>> {
        let mut source = self.source.lock().await;
        if let Some((at, page)) = source.last.as_ref()
            && at.elapsed() < FRESH_FOR
        {
            return Some(Arc::clone(page));
        }
        match source.ask().await {
            Ok(answers) => {
                let open_metrics = metrics::exposition(&answers);
                let text = metrics::text_format(&open_metrics).into();
                let page = Arc::new(Page { open_metrics: open_metrics.into(), text });
                source.last = Some((Instant::now(), Arc::clone(&page)));
                Some(page)
            }
            Err(end) => {
                source.fail.take().map(|fail| fail.send(end));
                None
            }
        }
    }
}

impl Source {
    /// Asks the reader.
    ///
    /// # Errors
    /// How that ended: well, if the reader has gone.
    async fn ask(&mut self) -> Result<Vec<Answered>, Result<(), TelemetryError>> {
        let gone = |_| Ok(());
        self.reader.write_all(&[1]).await.map_err(gone)?;
        let len = self.reader.read_u32().await.map_err(gone)?.min(ANSWER_LEN_MAX);
        let mut json = vec![0; len as usize];
        self.reader.read_exact(&mut json).await.map_err(gone)?;
        serde_json::from_slice(&json).map_err(|error| Err(TelemetryError::Foreign(error)))
    }
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
